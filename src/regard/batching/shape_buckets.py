"""Batches of few shapes: what is captured for one of them can be replayed for all of its kind.

A batch is brought to a shape by rows of filler behind its own, whose labels count for nothing. A
model that packs its sentences pays for tokens: rows of filler hold the few that are missing from a
round number of them, and how long the rows are is no matter. Another one pays for the rectangle:
lengths are rounded finely then, each row of filler has one token, and labels that are missing are
asked for where there is padding.

A batch is planned within a budget, and grows beyond it where its words are cut at random after
that. How much differs from batch to batch, and so would everything about its shape: such batches
are rounded more coarsely, and both their sides to one length.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.text.special_tokens import EOS
from regard.types import Batch, Padded

TOKEN_MULTIPLE = 8
"""Tokens are rounded to multiples of this."""
PACKED_TOKEN_STEPS = 32
"""A packed batch that fills its budget has about so many times what tokens are rounded to."""
PADDED_TOKEN_STEPS = 8
"""The same for the target tokens of one that is not packed, of which the output layer alone
knows."""
LENGTHS_PER_OCTAVE = 8
"""Between a power of two and the next, there are so many lengths of rectangles."""
ROW_COUNTS_PER_OCTAVE = 4
"""And so many numbers of rows, of rectangles beyond the budget."""


class BatchShape(NamedTuple):
    """What a batch's tensors are as large as."""

    rows: int
    source: int  # S
    target: int  # T
    source_tokens: int
    target_tokens: int


class ShapeBuckets(NamedTuple):
    """Shapes for all batches, few for those planned with `budget` positions on the longer side."""

    budget: int
    packed: bool = True
    """Whether the model packs its sentences."""
    limit: int | None = None
    """The longest side that the model can take, if there is one."""

    def shape(self, batch: Batch) -> BatchShape:
        """That of the bucket of a batch."""
        rows, sides = len(batch.source.ids), (batch.source, batch.target)
        lengths = [side.ids.shape[1] for side in sides]
        rounded, coarseness = (
            [round_up_to_bucket(length, self._lengths_per_octave) for length in lengths],
            1,
        )
        num_rows = self.budget // smallest_in_bucket(max(rounded), self._lengths_per_octave)
        if rows * max(lengths) > self.budget:
            rounded, coarseness = [max(rounded)] * 2, 2
            # Few have twice the rows for their length: there is one number for most of a length.
            num_rows = (
                round_up_to_bucket(max(rows, 2 * num_rows), 1)
                if self.packed
                else round_up_to_bucket(rows, ROW_COUNTS_PER_OCTAVE)
            )
        source, target = (self._within_limit(*both) for both in zip(lengths, rounded, strict=True))
        if not self.packed:
            num_labels = _round_to_multiple(
                batch.num_tokens, coarseness * self._token_multiple(PADDED_TOKEN_STEPS)
            )
            return BatchShape(
                num_rows, source, target, num_rows * source, min(num_labels, num_rows * target)
            )
        multiple = coarseness * self._token_multiple(PACKED_TOKEN_STEPS)
        tokens = (
            _round_to_multiple(len(places), multiple)
            for places in (batch.source_indices, batch.target_indices)
        )
        return BatchShape(num_rows + -(-multiple // min(source, target)), source, target, *tokens)

    @property
    def _lengths_per_octave(self) -> int:
        return 1 if self.packed else LENGTHS_PER_OCTAVE

    def _token_multiple(self, grains: int) -> int:
        """What numbers of tokens are multiples of."""
        return _round_to_multiple(-(-self.budget // grains), TOKEN_MULTIPLE)

    def _within_limit(self, length: int, rounded: int) -> int:
        """As long as the model can take; where `length` is too much for it, it will say so."""
        return rounded if self.limit is None else max(length, min(rounded, self.limit))


def pad_to_shape(batch: Batch, shape: BatchShape, *, packed: bool = True) -> Batch:
    """The batch in a bucket's shape: its own rows first, each position where it was."""
    add_filler = _add_filler_tokens if packed else _add_filler_rows
    rows, source_length, target_length, source_tokens, target_tokens = shape
    source = add_filler(
        _pad_length(batch.source, batch.source_indices, source_length), rows, source_tokens
    )
    target = add_filler(
        _pad_length(batch.target, batch.target_indices, target_length), rows, target_tokens
    )
    labels = batch.labels.new_full((target_tokens,), IGNORE_INDEX)
    labels[: batch.num_tokens] = batch.labels
    return Batch(source.padded, target.padded, target.places, labels, source.places)


class _PaddedSide(NamedTuple):
    padded: Padded  # (B, S)
    places: Tensor  # (N,)


def _pad_length(padded: Padded, places: Tensor, length: int) -> _PaddedSide:
    """The same sentences in a rectangle (B, `length`)."""
    width = padded.ids.shape[1]
    ids, mask = (torch.nn.functional.pad(x, (0, length - width)) for x in padded)
    return _PaddedSide(Padded(ids, mask), places // width * length + places % width)


def _add_filler_tokens(side: _PaddedSide, rows: int, tokens: int) -> _PaddedSide:
    """`rows` of them, the first of filler as full as it takes to have `tokens` in all."""
    (own_rows, length), num_filler = side.padded.ids.shape, tokens - len(side.places)
    real = (torch.arange((rows - own_rows) * length) < num_filler).view(-1, length)
    filler_index = torch.arange(own_rows * length, own_rows * length + num_filler)
    return _PaddedSide(_append_rows(side.padded, real), torch.cat([side.places, filler_index]))


def _add_filler_rows(side: _PaddedSide, rows: int, tokens: int) -> _PaddedSide:
    """`rows` of them, those of filler with one token; what is missing at `places` is padding."""
    own_rows, length = side.padded.ids.shape
    real = (torch.arange(length) < 1).expand(rows - own_rows, length)
    is_padding = torch.ones(rows * length, dtype=torch.bool).index_fill_(0, side.places, False)
    padding_index = is_padding.nonzero()[
        : tokens - len(side.places), 0
    ]  # nobody's twice: slopes are summed
    return _PaddedSide(_append_rows(side.padded, real), torch.cat([side.places, padding_index]))


def _append_rows(padded: Padded, real: Tensor) -> Padded:
    """Rows of filler behind the others, which are `real` (F, S) in part."""
    ids = padded.ids.new_full(real.shape, EOS)
    return Padded(torch.cat([padded.ids, ids]), torch.cat([padded.mask, real]))


def _round_to_multiple(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def round_up_to_bucket(length: int, parts: int) -> int:
    """The least no less than `length`, of `parts` evenly from each power of two to the next."""
    return _round_to_multiple(length, _bucket_width(length, parts))


def smallest_in_bucket(rounded: int, parts: int) -> int:
    """The least length that is rounded up to `rounded`."""
    return rounded - _bucket_width(rounded, parts) + 1


def _bucket_width(length: int, parts: int) -> int:
    """How far from each other the numbers are between which `length` lies; at least 1."""
    below = 1 << max(0, (length - 1).bit_length() - 1)
    return max(1, below // parts)
