import torch

from regard.batching.buckets import Buckets, fill_up, round_up, shortest
from regard.batching.collate import collate
from regard.kernels.loss import IGNORED

BUCKETS = Buckets(budget=60)


def batch(sources, targets):
    """One whose sentences have so many tokens, EOS or BOS not counted."""
    return collate(*([[10 * n + at for at in range(size)] for n, size in enumerate(side)]
                     for side in (sources, targets)))  # fmt: skip


def test_a_batch_keeps_its_own_rows_and_is_filled_up_with_others():
    given = batch([2, 5, 3], [4, 2, 6])
    shape = BUCKETS.shape(given)
    filled = fill_up(given, shape)
    assert shape[1:] == (6, 8, 60, 60)
    for side, other, tokens in (
        (filled.source, given.source, shape.source_tokens),
        (filled.target, given.target, shape.target_tokens),
    ):
        assert side.ids.shape == side.mask.shape
        assert len(side.ids) == shape.rows
        assert torch.equal(side.ids[:3, : other.ids.shape[1]] * other.mask, other.ids * other.mask)
        assert torch.equal(side.mask[:3, : other.ids.shape[1]], other.mask)
        assert not side.mask[:3, other.ids.shape[1] :].any()
        assert side.mask.sum() == tokens


def test_places_and_labels_belong_together():
    given = batch([2, 5, 3], [4, 2, 6])
    filled = fill_up(given, BUCKETS.shape(given))
    assert torch.equal(filled.places, filled.target.mask.flatten().nonzero().squeeze(1))
    assert torch.equal(filled.source_places, filled.source.mask.flatten().nonzero().squeeze(1))
    real = given.num_tokens
    assert torch.equal(filled.labels[:real], given.labels)
    assert (filled.labels[real:] == IGNORED).all()
    ids = filled.target.ids.flatten()[filled.places[:real]]
    assert torch.equal(ids, given.target.ids.flatten()[given.places])


def test_batches_of_like_length_share_a_shape():
    few, many = batch([5, 6], [6, 5]), batch([7] * 7, [6] * 7)
    assert BUCKETS.shape(few) == BUCKETS.shape(many)
    assert BUCKETS.shape(few) != BUCKETS.shape(batch([5, 6], [6, 8]))
    assert len(fill_up(many, BUCKETS.shape(many)).labels) == 60


def test_every_batch_of_a_budget_fits():
    for length in range(1, 40):
        rows = max(1, BUCKETS.budget // (length + 1))
        for sides in ([length], [1]), ([length], [length]), ([1], [length]):
            given = batch(*(side * rows for side in sides))
            filled = fill_up(given, BUCKETS.shape(given))
            assert filled.target.mask.sum() == filled.source.mask.sum() == BUCKETS.budget


def test_a_batch_beyond_the_budget_has_no_shape():
    assert BUCKETS.shape(batch([70], [3])) is None


def test_lengths_are_rounded_to_few():
    rounded = [round_up(length) for length in range(1, 100)]
    assert sorted(set(rounded)) == [4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128]
    assert all(length <= up for length, up in enumerate(rounded, start=1))
    for up in sorted(set(rounded)):
        assert shortest(up) == 1 + rounded.index(up)
