from collections import Counter

from regard.iterate import chunked, peek, reservoir_sample


def test_chunks_hold_all_in_order():
    assert list(chunked(range(5), 2)) == [[0, 1], [2, 3], [4]]
    assert list(chunked([], 2)) == []


def test_peek_returns_the_first_items_and_a_stream_of_all():
    first, items = peek(iter(range(7)), 3)
    assert (first, list(items)) == ([0, 1, 2], [*range(7)])


def test_few_are_all_picked_in_order():
    assert reservoir_sample(iter("abc"), 3) == reservoir_sample("abc", 9) == ["a", "b", "c"]
    assert reservoir_sample([], 3) == []


def test_many_are_picked_from_everywhere_and_the_same_each_time():
    picked = reservoir_sample(range(10_000), 1000)
    assert picked == reservoir_sample(range(10_000), 1000)
    assert len(set(picked)) == 1000
    tenths = Counter(number // 1000 for number in picked)
    assert len(tenths) == 10
    assert all(60 < count < 140 for count in tenths.values())
