from itertools import islice

import numpy as np
import torch

from regard.batching.caption_batches import CaptionBuckets, CaptionTokens, caption_batches
from regard.batching.example_batches import epoch_batches
from regard.batching.sampler import StreamPosition
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.text.special_tokens import BOS, EOS
from regard.types import Regions

CAPTIONS = [[5 + row] * (1 + row % 7) for row in range(50)]
TOKENS = CaptionTokens(CAPTIONS, np.arange(50) // 5)


def inputs_of(rows):
    return Regions(torch.from_numpy(rows.astype(np.float32))[:, None, None].expand(-1, 4, 3))


def stream(start=(0, 0), size=8, seed=3):
    return caption_batches(TOKENS, inputs_of, size, seed, StreamPosition(*start))


def test_a_batch_has_each_caption_with_its_picture():
    batch = TOKENS.batch(np.array([12, 3]), inputs_of)
    assert batch.inputs.values[:, 0, 0].tolist() == [2, 0]
    assert batch.given.ids.tolist() == [[BOS, *CAPTIONS[12]], [BOS, *CAPTIONS[3], 0, 0]]
    assert batch.labels.tolist() == [*CAPTIONS[12], EOS, *CAPTIONS[3], EOS]
    flat = batch.given.mask.flatten()
    assert torch.equal(flat.nonzero()[:, 0], batch.positions)


def test_every_epoch_has_its_own_order_and_full_batches_of_like_length():
    lengths = np.array([len(ids) for ids in CAPTIONS])
    first, second = (epoch_batches(lengths, 8, 3, epoch) for epoch in (0, 1))
    for batches in (first, second):
        rows = np.concatenate(batches)
        assert len(set(rows.tolist())) == len(rows) == 48
        assert max(np.ptp(lengths[batch]) for batch in batches) <= 2
    assert not all(map(np.array_equal, first, second))
    assert [len(batch) for batch in epoch_batches(lengths, 80, 3, 0)] == [50]


def test_any_place_of_the_stream_can_be_resumed():
    whole = list(islice(stream(), 14))
    for begun in (3, 6, 9):
        again = islice(stream(whole[begun - 1].next_position), 14 - begun)
        for one, other in zip(again, whole[begun:], strict=True):
            assert one.next_position == other.next_position
            tensors = zip(one.batch.tensors(), other.batch.tensors(), strict=True)
            assert all(torch.equal(x, y) for x, y in tensors)


def test_held_out_batches_have_every_caption_once():
    batches = list(TOKENS.held_out_batches(inputs_of, 7))
    assert sum(len(batch.given.ids) for batch in batches) == 50
    assert sum(batch.num_labels for batch in batches) == sum(len(ids) + 1 for ids in CAPTIONS)


def test_few_shapes_hold_all_batches_and_change_no_label():
    buckets, shapes = CaptionBuckets(), set()
    for one in islice(stream(), 12):
        batch = one.batch
        shape = buckets.shape(batch)
        shapes.add(shape)
        padded = buckets.pad(batch, shape)
        assert buckets.shape(padded) == shape
        counted = padded.labels != IGNORE_INDEX
        assert torch.equal(padded.labels[counted], batch.labels)
        length, wide = batch.given.ids.shape[1], padded.given.ids.shape[1]
        places = batch.positions // length * wide + batch.positions % length
        assert torch.equal(padded.positions[counted], places)
        assert torch.equal(padded.given.ids[:, :length], batch.given.ids)
        assert padded.num_labels == padded.given.ids.numel()
    assert len(shapes) < 8


def test_captions_are_not_padded_beyond_what_the_model_can_take():
    batch = CaptionTokens([[5] * 10], np.array([0])).batch(np.array([0]), inputs_of)
    shapes = [CaptionBuckets(limit).shape(batch)[-1] for limit in (None, 11, 10)]
    assert shapes == [12, 11, 11]  # with BOS; the model says itself what is too long
