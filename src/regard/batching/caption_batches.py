"""Captions of pictures -> batches, each of as many captions, of like length."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from regard.batching.collate import PositionedBatch, collate_targets
from regard.batching.sampler import StreamPosition
from regard.batching.shape_buckets import round_up_to_bucket
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.types import Batch, Padded, Pixels, Regions

POOL_BATCHES = 50
"""Captions of so many batches are sorted by length together: like lengths, yet other neighbours
in each epoch."""
LENGTHS_PER_OCTAVE = 4  # of the buckets for CUDA graphs

Rows = NDArray[np.intp]
PictureInputs = Pixels | Regions
InputsOf = Callable[[Rows], PictureInputs]  # numbers of pictures (B,) -> what the model reads


@dataclass(frozen=True)
class CaptionTokens:
    """The captions of a split."""

    captions: Sequence[Sequence[int]]  # N lists of ids
    pictures: Rows  # (N,) the number of each one's picture

    def batch(self, rows: Rows, inputs_of: InputsOf) -> Batch[PictureInputs]:
        """The captions `rows` (B,) with their pictures."""
        captions = [self.captions[row] for row in rows.tolist()]
        return Batch(inputs_of(self.pictures[rows]), *collate_targets(captions))

    def held_out_batches(self, inputs_of: InputsOf, size: int) -> Iterator[Batch[PictureInputs]]:
        """Every caption once, the shortest first."""
        order = np.argsort([len(ids) for ids in self.captions], kind="stable")
        for first in range(0, len(order), size):
            yield self.batch(order[first : first + size], inputs_of)


def caption_batches(
    tokens: CaptionTokens, inputs_of: InputsOf, size: int, seed: int, start: StreamPosition
) -> Iterator[PositionedBatch]:
    """An endless stream of batches of `size` captions from `start` on, which the seed determines.

    The few captions that are left over when an epoch is cut into batches wait for the next one.
    """
    lengths = np.array([len(ids) for ids in tokens.captions])
    epoch, first = start
    while True:
        batches = epoch_batches(lengths, size, seed, epoch)
        for number in range(first, len(batches)):
            behind = (epoch, number + 1) if number + 1 < len(batches) else (epoch + 1, 0)
            batch = tokens.batch(batches[number], inputs_of)
            yield PositionedBatch(batch, StreamPosition(*behind))
        epoch, first = epoch + 1, 0


def epoch_batches(lengths: NDArray[np.intp], size: int, seed: int, epoch: int) -> list[Rows]:
    """Rows in batches of `size` with like `lengths` (N,), determined by `seed` and `epoch`."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    size = min(size, len(order))
    order = order[: len(order) // size * size]
    pool = size * POOL_BATCHES
    pools = (order[first : first + pool] for first in range(0, len(order), pool))
    ordered = np.concatenate([rows[np.argsort(lengths[rows], kind="stable")] for rows in pools])
    batches = ordered.reshape(-1, size)
    return [batches[number] for number in rng.permutation(len(batches))]


class CaptionBuckets:
    """Captions padded to few lengths, with a label at every position: shapes for CUDA graphs."""

    def shape(self, batch: Batch[PictureInputs]) -> Hashable:
        rows, length = batch.decoder_input.ids.shape
        inputs = tuple(tensor.shape for tensor in batch.inputs.tensors())
        return (*inputs, rows, round_up_to_bucket(length, LENGTHS_PER_OCTAVE))

    def pad(self, batch: Batch[PictureInputs], shape: Hashable) -> Batch[PictureInputs]:
        """The batch in the shape of its bucket; labels that are filled in are IGNORE_INDEX."""
        given, positions = batch.decoder_input, batch.positions
        assert isinstance(shape, tuple)
        assert positions is not None
        rows, length = given.ids.shape
        target = shape[-1]
        ids, mask = (F.pad(x, (0, target - length)) for x in (given.ids, given.mask))
        labels = torch.full((rows * target,), IGNORE_INDEX)
        labels[positions // length * target + positions % length] = batch.labels
        return Batch(batch.inputs, Padded(ids, mask), torch.arange(rows * target), labels)
