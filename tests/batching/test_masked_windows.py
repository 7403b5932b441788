"""Windows of a text in which tokens are masked."""

from itertools import islice

import numpy as np
import pytest
import torch

from regard.batching.masked_windows import (
    Masking,
    held_out_windows,
    mask_tokens,
    masked_windows,
    pair_windows,
)
from regard.batching.sampler import StreamPosition
from regard.errors import CorpusError
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.text.special_tokens import BOS, EOS

MASK = 1000
TEXT = np.arange(4, 304)
START = StreamPosition(0, 0)


def masking(**given):
    return Masking(**({"mask_id": MASK, "share": 0.15, "pairs": False} | given))


def batches(count, *, start=START, how=None, **given):
    options = {"rows": 4, "length": 22, "seed": 1} | given
    return list(islice(masked_windows(TEXT, start, how or masking(), **options), count))


def restored(batch):
    """The ids before they were masked."""
    ids = batch.inputs.ids.flatten().clone()
    real = batch.labels != IGNORE_INDEX
    ids[batch.positions[real]] = batch.labels[real]
    return ids.view(batch.inputs.ids.shape)


def test_windows_are_stretches_of_the_text_with_as_many_labels_in_each_row():
    for batch, _ in batches(6):
        rows = restored(batch)
        assert rows.shape == (4, 22)
        assert (rows[:, 0] == BOS).all()
        assert (rows[:, -1] == EOS).all()
        assert (rows[:, 1:-1].diff() == 1).all()
        assert batch.num_labels == 4 * 3
        assert torch.equal(batch.positions.view(4, 3) // 22, torch.arange(4)[:, None].expand(4, 3))
        assert batch.inputs.segments is batch.row_labels is None
        assert len(batch.inputs.indices) == batch.inputs.ids.numel()


def test_of_ten_tokens_eight_are_masked_one_is_another_and_one_stays():
    ids = np.random.default_rng(0).integers(4, 900, (300, 100))
    draws = np.random.default_rng(1).random((300, 100, 3))
    found = mask_tokens(ids, masking(share=0.3), draws)
    now = found.ids.flatten()[found.positions]
    assert (found.labels == ids.flatten()[found.positions]).all()
    assert np.mean(now == MASK) == pytest.approx(0.8, abs=0.02)
    assert np.mean(now == found.labels) == pytest.approx(0.1, abs=0.02)
    others = now[(now != MASK) & (now != found.labels)]
    assert others.min() >= 4
    assert others.max() < MASK
    untouched = np.ones(ids.size, bool)
    untouched[found.positions] = False
    assert (found.ids.flatten() == ids.flatten())[untouched].all()


def test_special_tokens_are_never_masked_and_their_places_are_ignored():
    ids = np.full((2, 12), EOS)
    ids[0, 3] = 50
    found = mask_tokens(ids, masking(share=0.4), np.random.default_rng(1).random((2, 12, 3)))
    assert sorted(found.labels.tolist()) == [IGNORE_INDEX] * 7 + [50]
    assert (found.ids[1] == EOS).all()


def test_whole_words_are_masked_or_none_of_their_tokens():
    # of three tokens, the first begins a word
    spaces = np.stack([np.arange(MASK) % 3 == 0, np.zeros(MASK, bool)], 1)
    ids = np.random.default_rng(0).integers(2, 300, (200, 1)) * 3 + np.arange(30)
    draws = np.random.default_rng(1).random((200, 30, 3))
    found = mask_tokens(ids, masking(share=0.36, spaces=spaces), draws)
    chosen = np.zeros(ids.size, bool)
    chosen[found.positions[found.labels != IGNORE_INDEX]] = True
    words = chosen.reshape(200, 10, 3)
    assert (words.all(-1) | ~words.any(-1)).all()
    assert (words.any(-1).sum(1) == 3).all()  # ten tokens are three words and a third


def test_white_space_of_its_own_ends_a_word():
    spaces = np.zeros((MASK, 2), bool)
    spaces[7] = True
    ids = np.array([[BOS, 10, 11, 7, 12, 13, EOS]])
    found = []
    for seed in range(20):
        draws = np.random.default_rng(seed).random((1, 7, 3))
        masked = mask_tokens(ids, masking(share=0.4, spaces=spaces), draws)
        found.append(set(masked.positions[masked.labels != IGNORE_INDEX].tolist()))
    assert {1, 2} in found
    assert {4, 5} in found
    assert all(one in ({1, 2}, {4, 5}, {3}) for one in found)


def test_half_of_the_pairs_follow_and_the_others_come_from_elsewhere():
    firsts, draws = np.arange(200), np.random.default_rng(3).random((200, 3))
    found = pair_windows(TEXT, firsts, 20, draws)
    assert found.ids.shape == (200, 23)
    assert np.mean(found.row_labels) == pytest.approx(0.5, abs=0.1)
    for row, segments, other in zip(found.ids, found.segments, found.row_labels, strict=True):
        first, last = np.flatnonzero(row == EOS)
        assert last == 22
        assert (segments == (np.arange(23) > first)).all()
        one, two = row[1:first], row[first + 1 : -1]
        assert (np.diff(one) == 1).all()
        assert (np.diff(two) == 1).all()
        assert min(len(one), len(two)) >= 5
        assert (two[0] == one[-1] + 1) == (other == 0)


@pytest.mark.parametrize("fixed", [None, 2])
@pytest.mark.parametrize("pairs", [False, True])
def test_a_stream_goes_on_from_any_position(fixed, pairs):
    how = masking(pairs=pairs)
    whole = batches(9, how=how, fixed_masks=fixed)
    assert whole[-1].next_position.epoch >= 2
    for number in range(1, 9):
        start = whole[number - 1].next_position
        again = batches(1, how=how, start=start, fixed_masks=fixed)[0]
        for one, two in zip(again.batch.tensors(), whole[number].batch.tensors(), strict=True):
            assert torch.equal(one, two)


def test_fixed_masks_come_again_in_another_order_and_others_are_always_new():
    def epochs(**given):
        found = [[], [], [], []]
        position = START
        for batch, behind in batches(8, rows=7, **given):
            found[position.epoch] += map(tuple, batch.inputs.ids.tolist())
            position = behind
        return found

    fixed = epochs(fixed_masks=2)
    assert fixed[0] != fixed[2]
    assert sorted(fixed[0]) == sorted(fixed[2])
    assert sorted(fixed[1]) == sorted(fixed[3])
    assert not {*fixed[0]} & {*fixed[1]}
    drawn = epochs()
    assert not {*drawn[0]} & {*drawn[1]}
    assert not {*drawn[0]} & {*drawn[2]}


def test_held_out_windows_are_the_whole_text_and_always_the_same():
    once, again = (list(held_out_windows(TEXT, masking(), rows=4, length=22)) for _ in range(2))
    rows = torch.cat([restored(batch) for batch in once])
    assert torch.equal(rows[:, 1:-1].flatten(), torch.from_numpy(TEXT))
    for one, two in zip(once, again, strict=True):
        assert torch.equal(one.inputs.ids, two.inputs.ids)


def test_a_text_of_one_token_is_refused():
    with pytest.raises(CorpusError, match="a text of 1 tokens is too short to mask"):
        next(held_out_windows(TEXT[:1], masking(), rows=1, length=22))
