import pytest
import torch

from regard.batching.buckets import Buckets, fill_up, round_up, shortest
from regard.batching.collate import collate
from regard.kernels.loss import IGNORED

BUDGET = 300
PACKED, PADDED = Buckets(BUDGET), Buckets(BUDGET, packed=False)


def batch(sources, targets):
    """One whose sentences have so many tokens, EOS or BOS not counted."""
    return collate(*([[10 * n + at for at in range(size)] for n, size in enumerate(side)]
                     for side in (sources, targets)))  # fmt: skip


def filled(given, buckets):
    return fill_up(given, buckets.shape(given), packed=buckets.packed)


@pytest.mark.parametrize("buckets", [PACKED, PADDED], ids=["packed", "padded"])
def test_a_batch_keeps_its_own_rows_and_is_filled_up_with_others(buckets):
    given = batch([2, 5, 3], [4, 2, 6])
    shape, found = buckets.shape(given), filled(given, buckets)
    sides = (found.source, given.source, shape.source), (found.target, given.target, shape.target)
    for side, other, length in sides:
        assert side.ids.shape == side.mask.shape == (shape.rows, length)
        assert torch.equal(side.ids[:3, : other.ids.shape[1]] * other.mask, other.ids * other.mask)
        assert torch.equal(side.mask[:3, : other.ids.shape[1]], other.mask)
        assert not side.mask[:3, other.ids.shape[1] :].any()


@pytest.mark.parametrize("buckets", [PACKED, PADDED], ids=["packed", "padded"])
def test_places_and_labels_belong_together(buckets):
    given = batch([2, 5, 3], [4, 2, 6])
    shape, found, real = buckets.shape(given), filled(given, buckets), given.num_tokens
    assert len(found.labels) == len(found.places) == shape.target_tokens
    assert len(found.source_places) == shape.source_tokens
    assert torch.equal(found.labels[:real], given.labels)
    assert (found.labels[real:] == IGNORED).all()
    ids = found.target.ids.flatten()[found.places[:real]]
    assert torch.equal(ids, given.target.ids.flatten()[given.places])
    assert len(set(found.places.tolist())) == len(found.places)


def test_what_is_packed_has_its_tokens_at_their_places():
    found = filled(batch([2, 5, 3], [4, 2, 6]), PACKED)
    assert torch.equal(found.places, found.target.mask.flatten().nonzero().squeeze(1))
    assert torch.equal(found.source_places, found.source.mask.flatten().nonzero().squeeze(1))


def test_what_is_padded_has_a_token_in_each_row_of_filler():
    found = filled(batch([2, 5, 3], [4, 2, 6]), PADDED)
    for side in (found.source, found.target):
        assert (side.mask[3:].sum(1) == 1).all()
        assert side.mask[:, 0].all()


def test_tokens_are_rounded_to_a_few_of_the_budget():
    full = batch([9] * 30, [9] * 30)
    assert PACKED.shape(full)[3:] == (304, 304)  # multiples of 16
    assert PACKED.shape(batch([9] * 28, [9] * 29))[3:] == (288, 304)
    assert PADDED.shape(full).target_tokens == 300  # of 40, and no more than there are


def test_batches_of_like_length_share_a_shape():
    for buckets in (PACKED, PADDED):
        few, many = batch([10] * 20, [9] * 20), batch([10] * 20, [9, 8] * 10)
        assert buckets.shape(few)[:3] == buckets.shape(many)[:3]
        assert buckets.shape(few) != buckets.shape(batch([10] * 20, [17] * 20))
    few, many = batch([7] * 30, [6] * 30), batch([6] * 29 + [7], [6] * 30)
    assert PADDED.shape(few) == PADDED.shape(many)


@pytest.mark.parametrize("buckets", [PACKED, PADDED], ids=["packed", "padded"])
def test_every_batch_of_a_budget_fits(buckets):
    for length in range(1, 80):
        for rows in {1, max(1, BUDGET // (length + 1))}:
            for sides in ([length], [1]), ([length], [length]), ([1], [length]):
                given = batch(*(side * rows for side in sides))
                shape, found = buckets.shape(given), filled(given, buckets)
                assert found.target.ids.shape == (shape.rows, shape.target)
                assert len(found.places) == shape.target_tokens
                if buckets.packed:
                    assert found.target.mask.sum() == shape.target_tokens
                    assert found.source.mask.sum() == shape.source_tokens


def test_a_batch_beyond_the_budget_has_no_shape():
    assert PACKED.shape(batch([BUDGET], [3])) is None


@pytest.mark.parametrize("packed", [True, False])
def test_nothing_is_longer_than_the_model_can_take(packed):
    buckets = Buckets(BUDGET, packed, limit=19)
    given = batch([17, 18], [3, 4])
    assert buckets.shape(given)[1:3] == (19, 8 if packed else 5)
    assert filled(given, buckets).source.ids.shape[1] == 19


def test_lengths_are_rounded_to_few():
    rounded = [round_up(length, 1) for length in range(1, 100)]
    assert sorted(set(rounded)) == [1, 2, 4, 8, 16, 32, 64, 128]
    rounded = [round_up(length, 4) for length in range(1, 65)]
    assert sorted(set(rounded)) == [*range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]
    assert all(length <= up for length, up in enumerate(rounded, start=1))
    for up in sorted(set(rounded)):
        assert shortest(up, 4) == 1 + rounded.index(up)
