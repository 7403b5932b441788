"""Captions of pictures -> batches of equally many captions of similar lengths."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from regard.batching.collate import PositionedBatch, collate_targets
from regard.batching.example_batches import Rows, example_batches, shortest_first
from regard.batching.sampler import WHOLE_STREAM, Shard, StreamPosition
from regard.batching.shape_buckets import round_up_to_bucket, within_limit
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.types import Batch, Padded, Pixels, Regions

LENGTHS_PER_OCTAVE = 4  # of the buckets for CUDA graphs

PictureInputs = Pixels | Regions
InputsOf = Callable[[Rows], PictureInputs]  # numbers of pictures (B,) -> the model's input


@dataclass(frozen=True)
class CaptionTokens:
    """The captions of a split."""

    captions: Sequence[Sequence[int]]  # N lists of ids
    pictures: Rows  # (N,) the number of each one's picture

    @property
    def lengths(self) -> NDArray[np.intp]:
        """Tokens of each caption: (N,)."""
        return np.array([len(ids) for ids in self.captions])

    def batch(self, rows: Rows, inputs_of: InputsOf) -> Batch[PictureInputs]:
        """The captions `rows` (B,) with their pictures."""
        captions = [self.captions[row] for row in rows.tolist()]
        return Batch(inputs_of(self.pictures[rows]), *collate_targets(captions))

    def held_out_batches(self, inputs_of: InputsOf, size: int) -> Iterator[Batch[PictureInputs]]:
        """Every caption once, the shortest first."""
        for rows in shortest_first(self.lengths, size):
            yield self.batch(rows, inputs_of)


def caption_batches(
    tokens: CaptionTokens,
    inputs_of: InputsOf,
    size: int,
    seed: int,
    start: StreamPosition,
    shard: Shard = WHOLE_STREAM,
) -> Iterator[PositionedBatch]:
    """An endless stream of batches of `size` captions from `start` on, determined by the seed; with
    a `shard`, only its batches.
    """
    make_batch = partial(tokens.batch, inputs_of=inputs_of)
    return example_batches(tokens.lengths, size, seed, make_batch, start, shard)


class CaptionBuckets(NamedTuple):
    """Captions padded to few lengths, with a label at every position, as shapes for CUDA graphs."""

    limit: int | None = None  # the longest caption that the model can take, if there is one

    def shape(self, batch: Batch[PictureInputs]) -> Hashable:
        rows, length = batch.decoder_input.ids.shape
        inputs = tuple(tensor.shape for tensor in batch.inputs.tensors())
        rounded = round_up_to_bucket(length, LENGTHS_PER_OCTAVE)
        return (*inputs, rows, within_limit(length, rounded, self.limit))

    def pad(self, batch: Batch[PictureInputs], shape: Hashable) -> Batch[PictureInputs]:
        """The batch in the shape of its bucket; filler labels are IGNORE_INDEX."""
        given, positions = batch.decoder_input, batch.positions
        assert isinstance(shape, tuple)
        assert positions is not None
        rows, length = given.ids.shape
        target = shape[-1]
        ids, mask = (F.pad(x, (0, target - length)) for x in (given.ids, given.mask))
        labels = torch.full((rows * target,), IGNORE_INDEX)
        labels[positions // length * target + positions % length] = batch.labels
        return Batch(batch.inputs, Padded(ids, mask), torch.arange(rows * target), labels)
