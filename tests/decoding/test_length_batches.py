import pytest

from regard.decoding.length_batches import MIN_COUNTED_LENGTH, plan_batches


def test_each_sentence_once_within_the_budget_and_sorted():
    lengths = [3, 9, 1, 4, 4, 30, 2, 9]
    batches = plan_batches(lengths, budget=24, width=2)
    assert sorted(place for batch in batches for place in batch) == list(range(len(lengths)))
    flat = [lengths[place] for batch in batches for place in batch]
    assert flat == sorted(lengths, reverse=True)
    for batch in batches:
        longest = max(lengths[place] for place in batch)
        assert len(batch) == 1 or len(batch) * longest * 2 <= 24
    assert batches == [[5], [1], [7], [3, 4, 0], [6, 2]]


def test_sentences_of_one_length_keep_their_order():
    assert plan_batches([5, 5, 5, 5, 5], budget=10) == [[0, 1], [2, 3], [4]]


def test_nothing_to_do():
    assert plan_batches([], budget=10) == []


def test_short_sentences_count_for_some_tokens():
    assert plan_batches([0, 1, 2], budget=2 * MIN_COUNTED_LENGTH) == [[2, 1], [0]]


@pytest.mark.parametrize(("budget", "width"), [(0, 1), (5, 0)])
def test_budget_and_width_must_be_positive(budget, width):
    with pytest.raises(ValueError, match=f"got budget={budget} and width={width}"):
        plan_batches([1], budget, width)
