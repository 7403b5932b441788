import numpy as np
import pytest
import torch

from regard.batching.collate import collate, pad
from regard.batching.sampler import epoch_batches
from regard.batching.shape_buckets import (
    RowBuckets,
    ShapeBuckets,
    round_up_to_bucket,
    smallest_in_bucket,
)
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.types import Batch

BUDGET = 300
PACKED, PADDED = ShapeBuckets(BUDGET), ShapeBuckets(BUDGET, packed=False)


def batch(sources, targets):
    """One whose sentences have so many tokens, EOS or BOS not counted."""
    return collate(*([[10 * n + at for at in range(size)] for n, size in enumerate(side)]
                     for side in (sources, targets)))  # fmt: skip


def filled(given, buckets):
    return buckets.pad(given, buckets.shape(given))


@pytest.mark.parametrize("buckets", [PACKED, PADDED], ids=["packed", "padded"])
def test_a_batch_keeps_its_own_rows_and_is_filled_up_with_others(buckets):
    given = batch([2, 5, 3], [4, 2, 6])
    shape, found = buckets.shape(given), filled(given, buckets)
    sides = (found.inputs, given.inputs, shape.source), (found.given, given.given, shape.target)
    for side, other, length in sides:
        assert side.ids.shape == side.mask.shape == (shape.rows, length)
        assert torch.equal(side.ids[:3, : other.ids.shape[1]] * other.mask, other.ids * other.mask)
        assert torch.equal(side.mask[:3, : other.ids.shape[1]], other.mask)
        assert not side.mask[:3, other.ids.shape[1] :].any()


@pytest.mark.parametrize("buckets", [PACKED, PADDED], ids=["packed", "padded"])
def test_places_and_labels_belong_together(buckets):
    given = batch([2, 5, 3], [4, 2, 6])
    shape, found, real = buckets.shape(given), filled(given, buckets), given.num_labels
    assert len(found.labels) == len(found.positions) == shape.target_tokens
    assert len(found.inputs.indices) == shape.source_tokens
    assert torch.equal(found.labels[:real], given.labels)
    assert (found.labels[real:] == IGNORE_INDEX).all()
    ids = found.given.ids.flatten()[found.positions[:real]]
    assert torch.equal(ids, given.given.ids.flatten()[given.positions])
    assert len(set(found.positions.tolist())) == len(found.positions)


def test_what_is_packed_has_its_tokens_at_their_places():
    found = filled(batch([2, 5, 3], [4, 2, 6]), PACKED)
    assert torch.equal(found.positions, found.given.mask.flatten().nonzero().squeeze(1))
    assert torch.equal(found.inputs.indices, found.inputs.mask.flatten().nonzero().squeeze(1))


def test_what_is_padded_has_a_token_in_each_row_of_filler():
    found = filled(batch([2, 5, 3], [4, 2, 6]), PADDED)
    for side in (found.inputs, found.given):
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


@pytest.mark.parametrize("grown", [1, 2, 3])
@pytest.mark.parametrize("buckets", [PACKED, PADDED], ids=["packed", "padded"])
def test_every_batch_fits_though_it_has_grown_beyond_the_budget(buckets, grown):
    for length in range(1, 80, grown):
        for rows in {1, max(1, BUDGET // (length + 1))}:
            for sides in ([length], [1]), ([length], [length]), ([1], [length]):
                given = batch(*(side * (grown * rows) for side in sides))
                shape, found = buckets.shape(given), filled(given, buckets)
                assert found.given.ids.shape == (shape.rows, shape.target)
                assert len(found.positions) == shape.target_tokens
                assert torch.equal(found.labels[: given.num_labels], given.labels)
                if buckets.packed:
                    assert found.given.mask.sum() == shape.target_tokens
                    assert found.inputs.mask.sum() == shape.source_tokens


def test_one_sentence_beyond_the_budget_has_a_shape():
    for buckets in (PACKED, PADDED):
        for length in (BUDGET, 2 * BUDGET, 5 * BUDGET):
            assert filled(batch([length], [3]), buckets).inputs.mask[0].sum() == length + 1


def cut_at_random(budget):
    """Batches planned within a budget, of which then each token may become two."""
    chance = np.random.default_rng(1)
    sources = np.clip(chance.lognormal(2.6, 0.35, 20 * budget).astype(np.int32), 3, 60)
    targets = np.maximum(1, sources + chance.integers(-2, 3, len(sources), np.int32))
    plan = epoch_batches(sources + 1, targets + 1, budget=budget, seed=1, epoch=0)
    for rows in plan:
        yield batch(*((side + chance.binomial(side, 0.2)).tolist()
                      for side in (sources[rows], targets[rows])))  # fmt: skip


@pytest.mark.parametrize("packed", [True, False])
def test_batches_cut_at_random_have_few_shapes_and_little_filler(packed):
    given = list(cut_at_random(1024))
    shapes = [ShapeBuckets(1024, packed).shape(one) for one in given]
    over = [len(one.inputs.ids) * one.inputs.ids.shape[1] > 1024 for one in given]
    assert sum(over) > 0.9 * len(given)
    assert len(given) > 300
    assert len(set(shapes)) < (32 if packed else 45)
    if packed:
        own = sum(len(one.positions) + len(one.inputs.indices) for one in given)
        assert sum(x.source_tokens + x.target_tokens for x in shapes) < 1.035 * own
    else:
        own = sum(one.inputs.ids.numel() + one.given.ids.numel() for one in given)
        assert sum(x.rows * (x.source + x.target) for x in shapes) < 1.17 * own


@pytest.mark.parametrize("packed", [True, False])
def test_nothing_is_longer_than_the_model_can_take(packed):
    buckets = ShapeBuckets(BUDGET, packed, limit=19)
    given = batch([17, 18], [3, 4])
    assert buckets.shape(given)[1:3] == (19, 8 if packed else 5)
    assert filled(given, buckets).inputs.ids.shape[1] == 19


@pytest.mark.parametrize("packed", [True, False])
def test_what_is_too_long_for_the_model_stays_as_long_for_it_to_say_so(packed):
    found = filled(batch([24, 18], [3, 4]), ShapeBuckets(BUDGET, packed, limit=19))
    assert found.inputs.ids.shape[1] == 25
    assert found.given.ids.shape[1] <= 19


def test_lengths_are_rounded_to_few():
    rounded = [round_up_to_bucket(length, 1) for length in range(1, 100)]
    assert sorted(set(rounded)) == [1, 2, 4, 8, 16, 32, 64, 128]
    rounded = [round_up_to_bucket(length, 4) for length in range(1, 65)]
    assert sorted(set(rounded)) == [*range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]
    assert all(length <= up for length, up in enumerate(rounded, start=1))
    for up in sorted(set(rounded)):
        assert smallest_in_bucket(up, 4) == 1 + rounded.index(up)


def rows_of_tokens(*lengths):
    labels = torch.arange(len(lengths))
    return Batch(pad([[7] * length for length in lengths]), None, None, labels)


def test_rows_with_one_label_each_are_padded_to_few_lengths():
    buckets = RowBuckets(limit=30)
    shapes = {buckets.shape(rows_of_tokens(3, length)) for length in range(1, 31)}
    assert {rows for rows, _ in shapes} == {2}
    assert len(shapes) <= 16
    given = rows_of_tokens(9, 4)
    found = filled(given, buckets)
    assert found.inputs.ids.shape == found.inputs.mask.shape == (2, 10)
    assert found.inputs.mask.sum(1).tolist() == [9, 4]
    assert torch.equal(found.labels, given.labels)
    assert buckets.shape(rows_of_tokens(29)) == (1, 30)  # not beyond the model's limit
    assert buckets.shape(rows_of_tokens(31)) == (1, 31)  # the model says that it is too long
