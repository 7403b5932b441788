"""Batches of few shapes: what is captured for one of them can be replayed for all of its kind.

A batch is brought to a shape by rows of filler behind its own. They hold as many tokens as are
missing, so that a model which packs its sentences sees the same number of them each time, and their
labels count for nothing.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.loss import IGNORED
from regard.text.special import EOS
from regard.types import Batch, Padded


class Shape(NamedTuple):
    """What a batch's tensors are as large as."""

    rows: int
    source: int  # S
    target: int  # T
    source_tokens: int
    target_tokens: int


class Buckets(NamedTuple):
    """Shapes for all batches of at most `budget` positions on their longer side."""

    budget: int

    def shape(self, batch: Batch) -> Shape | None:
        """That of the bucket of a batch; None where the batch is larger than any bucket."""
        rows, longest = len(batch.source.ids), _longest(batch)
        if rows * longest > self.budget:
            return None
        source, target = (round_up(x.ids.shape[1]) for x in (batch.source, batch.target))
        most = self.budget // shortest(max(source, target))
        filler = -(-self.budget // min(source, target))
        return Shape(most + filler, source, target, self.budget, self.budget)


def fill_up(batch: Batch, shape: Shape) -> Batch:
    """The batch in a bucket's shape: its own rows first, each position where it was."""
    source = _fill(batch.source, batch.source_places, shape.rows, shape.source, shape.source_tokens)
    target = _fill(batch.target, batch.places, shape.rows, shape.target, shape.target_tokens)
    labels = batch.labels.new_full((shape.target_tokens,), IGNORED)
    labels[: batch.num_tokens] = batch.labels
    return Batch(source.padded, target.padded, target.places, labels, source.places)


class _Filled(NamedTuple):
    padded: Padded
    places: Tensor


def _fill(padded: Padded, places: Tensor, rows: int, length: int, tokens: int) -> _Filled:
    """The same sentences in a rectangle (`rows`, `length`) that holds `tokens` in all."""
    own, width = padded.ids.shape
    missing = tokens - len(places)
    spare = torch.arange((rows - own) * length) < missing  # the first rows of filler are full
    mask = torch.cat([_widen(padded.mask, length), spare.view(-1, length)])  # (rows, length)
    ids = torch.cat([_widen(padded.ids, length), padded.ids.new_full((rows - own, length), EOS)])
    moved = places // width * length + places % width  # (N,)
    behind = torch.arange(own * length, own * length + missing)
    return _Filled(Padded(ids, mask), torch.cat([moved, behind]))


def _widen(x: Tensor, length: int) -> Tensor:
    return torch.nn.functional.pad(x, (0, length - x.shape[1]))


def _longest(batch: Batch) -> int:
    return max(batch.source.ids.shape[1], batch.target.ids.shape[1])


def round_up(length: int) -> int:
    """The least of 4, 6, 8, 12, 16, 24, 32, 48 ... that is no less than `length`."""
    power = max(4, 1 << (length - 1).bit_length())
    between = power * 3 // 4
    return between if 4 <= length <= between else power


def shortest(rounded: int) -> int:
    """The least length that is rounded up to `rounded`."""
    return next(length for length in range(1, rounded + 1) if round_up(length) == rounded)
