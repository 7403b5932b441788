"""Batches of one length limit, where there are enough sentences of it."""

import pytest

from regard.engines.ctranslate2.ct2_batching import MIN_HYPOTHESES, batch_by_limit


def test_sentences_of_one_limit_are_by_themselves():
    lengths = [5] * MIN_HYPOTHESES + [9] * MIN_HYPOTHESES + [7]
    batches = batch_by_limit(lengths, [2 * one for one in lengths], budget=1000, width=1)
    assert batches == [
        list(range(MIN_HYPOTHESES, 2 * MIN_HYPOTHESES)),
        [2 * MIN_HYPOTHESES],
        list(range(MIN_HYPOTHESES)),
    ]


def test_few_of_each_are_put_together_by_length():
    lengths = [3, 9, 4, 8]
    assert batch_by_limit(lengths, lengths, budget=20, width=1) == [[1, 3], [2, 0]]


def test_a_beam_counts_each_hypothesis():
    lengths = [3, 3, 4, 4]
    assert batch_by_limit(lengths, lengths, budget=10_000, width=MIN_HYPOTHESES) == [[2, 3], [0, 1]]
    assert batch_by_limit(lengths, lengths, budget=10_000, width=1) == [[2, 3, 0, 1]]


def test_batches_of_one_limit_are_of_like_size():
    lengths = [10] * 50
    sizes = [len(batch) for batch in batch_by_limit(lengths, lengths, budget=480, width=1)]
    assert sizes == [25, 25]


@pytest.mark.parametrize("budget", [1, 40, 10_000])
@pytest.mark.parametrize("width", [1, 5])
def test_every_sentence_is_in_one_batch(budget, width):
    lengths = [1 + (number * 7) % 23 for number in range(200)]
    limits = [min(30, 2 * one + 4) for one in lengths]  # one for all that are long
    batches = batch_by_limit(lengths, limits, budget, width)
    assert sorted(place for batch in batches for place in batch) == list(range(200))
    firsts = [lengths[batch[0]] for batch in batches]
    assert firsts == sorted(firsts, reverse=True)
    for batch in batches:
        assert len(batch) == 1 or len(batch) * width * lengths[batch[0]] <= budget


def test_nothing_to_pack():
    assert batch_by_limit([], [], budget=100, width=5) == []
