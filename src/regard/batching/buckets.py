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

from regard.kernels.loss import IGNORED
from regard.text.special import EOS
from regard.types import Batch, Padded

EVEN = 8
"""Tokens are rounded to multiples of this."""
GRAINS = 32
"""A packed batch that fills its budget has about so many times what tokens are rounded to."""
FEW_GRAINS = 8
"""The same for the target tokens of one that is not packed, of which the output layer alone
knows."""
FINE = 8
"""Between a power of two and the next, there are so many lengths of rectangles."""
ROUGH = 4
"""And so many numbers of rows, of rectangles beyond the budget."""


class Shape(NamedTuple):
    """What a batch's tensors are as large as."""

    rows: int
    source: int  # S
    target: int  # T
    source_tokens: int
    target_tokens: int


class Buckets(NamedTuple):
    """Shapes for all batches, few for those planned with `budget` positions on the longer side."""

    budget: int
    packed: bool = True
    """Whether the model packs its sentences."""
    limit: int | None = None
    """The longest side that the model can take, if there is one."""

    def shape(self, batch: Batch) -> Shape:
        """That of the bucket of a batch."""
        rows, sides = len(batch.source.ids), (batch.source, batch.target)
        lengths = [side.ids.shape[1] for side in sides]
        rounded, coarse = [round_up(length, self._parts) for length in lengths], 1
        most = self.budget // shortest(max(rounded), self._parts)
        if rows * max(lengths) > self.budget:
            rounded, coarse = [max(rounded)] * 2, 2
            # Few have twice the rows for their length: there is one number for most of a length.
            most = round_up(max(rows, 2 * most), 1) if self.packed else round_up(rows, ROUGH)
        source, target = (self._within_limit(*both) for both in zip(lengths, rounded, strict=True))
        if not self.packed:
            wanted = _round(batch.num_tokens, coarse * self._grain(FEW_GRAINS))
            return Shape(most, source, target, most * source, min(wanted, most * target))
        grain = coarse * self._grain(GRAINS)
        tokens = (_round(len(places), grain) for places in (batch.source_places, batch.places))
        return Shape(most + -(-grain // min(source, target)), source, target, *tokens)

    @property
    def _parts(self) -> int:
        return 1 if self.packed else FINE

    def _grain(self, grains: int) -> int:
        """What numbers of tokens are multiples of."""
        return _round(-(-self.budget // grains), EVEN)

    def _within_limit(self, length: int, rounded: int) -> int:
        """As long as the model can take; where `length` is too much for it, it will say so."""
        return rounded if self.limit is None else max(length, min(rounded, self.limit))


def fill_up(batch: Batch, shape: Shape, *, packed: bool = True) -> Batch:
    """The batch in a bucket's shape: its own rows first, each position where it was."""
    fill = _fill_tokens if packed else _fill_rows
    rows, source_length, target_length, source_tokens, target_tokens = shape
    source = fill(_widen(batch.source, batch.source_places, source_length), rows, source_tokens)
    target = fill(_widen(batch.target, batch.places, target_length), rows, target_tokens)
    labels = batch.labels.new_full((target_tokens,), IGNORED)
    labels[: batch.num_tokens] = batch.labels
    return Batch(source.padded, target.padded, target.places, labels, source.places)


class _Side(NamedTuple):
    padded: Padded  # (B, S)
    places: Tensor  # (N,)


def _widen(padded: Padded, places: Tensor, length: int) -> _Side:
    """The same sentences in a rectangle (B, `length`)."""
    width = padded.ids.shape[1]
    ids, mask = (torch.nn.functional.pad(x, (0, length - width)) for x in padded)
    return _Side(Padded(ids, mask), places // width * length + places % width)


def _fill_tokens(side: _Side, rows: int, tokens: int) -> _Side:
    """`rows` of them, the first of filler as full as it takes to have `tokens` in all."""
    (own, length), missing = side.padded.ids.shape, tokens - len(side.places)
    real = (torch.arange((rows - own) * length) < missing).view(-1, length)
    behind = torch.arange(own * length, own * length + missing)
    return _Side(_append(side.padded, real), torch.cat([side.places, behind]))


def _fill_rows(side: _Side, rows: int, tokens: int) -> _Side:
    """`rows` of them, those of filler with one token; what is missing at `places` is padding."""
    own, length = side.padded.ids.shape
    real = (torch.arange(length) < 1).expand(rows - own, length)
    free = torch.ones(rows * length, dtype=torch.bool).index_fill_(0, side.places, False)
    others = free.nonzero()[: tokens - len(side.places), 0]  # nobody's twice: slopes are summed
    return _Side(_append(side.padded, real), torch.cat([side.places, others]))


def _append(padded: Padded, real: Tensor) -> Padded:
    """Rows of filler behind the others, which are `real` (F, S) in part."""
    ids = padded.ids.new_full(real.shape, EOS)
    return Padded(torch.cat([padded.ids, ids]), torch.cat([padded.mask, real]))


def _round(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def round_up(length: int, parts: int) -> int:
    """The least no less than `length`, of `parts` evenly from each power of two to the next."""
    return _round(length, _apart(length, parts))


def shortest(rounded: int, parts: int) -> int:
    """The least length that is rounded up to `rounded`."""
    return rounded - _apart(rounded, parts) + 1


def _apart(length: int, parts: int) -> int:
    """How far from each other the numbers are between which `length` lies; at least 1."""
    below = 1 << max(0, (length - 1).bit_length() - 1)
    return max(1, below // parts)
