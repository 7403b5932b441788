"""The past of many hypotheses at once, never moved.

A search drops hypotheses and continues others twice. Were each one's keys and values kept in a row
of its own, every such choice would copy them all. Here a step lays down one *cell* for each
hypothesis of a sentence, in all layers, behind the cells of the steps before, and there it stays:
P cells, shared by all hypotheses of the sentence. A hypothesis is then no more than the list of the
cells that it came by, and to choose others is to copy lists of small numbers.
"""

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import KeyValues, fused, plain
from regard.attention.few import few, fits_few
from regard.attention.scores import Score
from regard.types import Site, Watch

AHEAD = 16
"""Steps that a room of cells has space for when it is made."""
SHORT = 32
"""Cells up to which, on a CPU and with one for each sentence and step, all are copied behind each
other again. What is read of each sentence would lie in short stretches with the room between them,
and a processor that finds such gaps does not fetch the next stretch ahead of time: to read takes up
to five times as long, which is more than to copy."""


@dataclass
class _Room:
    """Memory for cells, of which some are laid down; they are never changed any more."""

    kv: KeyValues  # (B, H, space, D)
    filled: int

    def takes(self, first: int, last: int) -> bool:
        """Whether cells `first` to `last` may be laid down here: nobody else has done so."""
        writable = self.kv.keys.is_inference() == torch.is_inference_mode_enabled()
        return writable and self.filled == first and last <= self.kv.keys.shape[2]


class Cells(NamedTuple):
    """The P cells of each sentence in one layer; a value.

    Who appends to it gets all cells back with the new ones behind them, and shares the memory of
    the old ones. There is room for more than are there, so that most steps copy nothing but what is
    new; a second one who appends to the same cells gets a room of his own.
    """

    kv: KeyValues  # (B, H, P, D)
    room: _Room | None = None

    def rows(self, sentences: Tensor) -> "Cells":
        """Those of some `sentences` (B',) alone, with as much room for more."""
        if self.room is None or torch.is_grad_enabled():
            return Cells(self.kv.rows(sentences))
        filled = self.kv.keys.shape[2]
        room = KeyValues(*(x.new_empty(len(sentences), *x.shape[1:]) for x in self.room.kv))
        kept = KeyValues(*(x[:, :, :filled] for x in room))
        for old, new in zip(self.kv, kept, strict=True):
            torch.index_select(old, 0, sentences, out=new)  # at once to its place: half the work
        return Cells(kept, _Room(room, filled))

    def steady(self, more: int) -> "Cells":
        """These, and behind them `more` that hold nothing yet: see `Paths.steady`."""
        space = self.kv.keys.shape[2] + more
        return Cells(KeyValues(*(_with_space(x, space, empty=0.0) for x in self.kv)))

    def append(self, later: KeyValues, spot: Tensor | None = None) -> "Cells":
        """These, and `later` ones (B, H, K, D) behind them.

        Those of a steady past are laid down in it, at their `spot` (K,).
        """
        if spot is not None:
            for place, new in zip(self.kv, later, strict=True):
                place.index_copy_(2, spot, new)
            return self
        first, room = self.kv.keys.shape[2], self.room
        last = first + later.keys.shape[2]
        if torch.is_grad_enabled() or _is_short(later, last):
            return Cells(self.kv.append(later))  # gradients want all that was read as it was
        if room is None or not room.takes(first, last):
            space = max(2 * first, first + AHEAD * (last - first))
            room = _Room(KeyValues(*(_with_space(x, space) for x in self.kv)), first)
        for place, new in zip(room.kv, later, strict=True):
            place[:, :, first:last] = new
        room.filled = last
        return Cells(KeyValues(*(x[:, :, :last] for x in room.kv)), room)


def _is_short(later: KeyValues, cells: int) -> bool:
    """Whether all `cells`, with these `later` ones (B, H, K, D), had better have no room."""
    return cells <= SHORT and later.keys.shape[2] == 1 and later.keys.device.type == "cpu"


def _with_space(x: Tensor, space: int, *, empty: float | None = None) -> Tensor:
    """`x` (B, H, P, D) at the beginning of (B, H, space, D); whatever is behind it, or `empty`."""
    rows, heads, filled, width = x.shape
    room = x.new_empty(rows, heads, space, width)
    room[:, :, :filled] = x
    if empty is not None:
        room[:, :, filled:] = empty
    return room


class Paths(NamedTuple):
    """By which cells each hypothesis came."""

    trails: Tensor  # (B, 1, K, P): 0 where it passed, else -inf, to be added to scores
    widths: tuple[int, ...]  # t of them, with the sum P: cells laid down at each position
    near: Tensor | None = None  # (P,) the same for where it may look at all; none: anywhere
    newest: Tensor | None = None  # (K, K) what a step lays down in `trails`, if it laid down K
    clock: Tensor | None = None  # () of a steady form, steps since it was made
    spot: Tensor | None = None  # (K,) of a steady form, the cells of its newest position

    @classmethod
    def empty(cls, sentences: int, *, like: Tensor) -> "Paths":
        """One hypothesis for each sentence, which has been nowhere yet; scores are `like` this."""
        return cls(like.new_zeros(sentences, 1, 1, 0), ())

    @property
    def length(self) -> int:
        """How many positions each hypothesis has."""
        return len(self.widths)

    @property
    def next(self) -> int | Tensor:
        """The position that comes next; a steady form knows it as a tensor ()."""
        return self.length if self.clock is None else self.length + self.clock

    @property
    def places(self) -> Tensor:
        """The position (P,) at which each cell was laid down."""
        where, first = self.trails.device, 0
        runs = [torch.arange(0, device=where)]
        for width, same in groupby(self.widths):  # as a tensor they would be waited for by a GPU
            last = first + len(list(same))
            runs.append(torch.arange(first, last, device=where).repeat_interleave(width))
            first = last
        return torch.cat(runs)

    @property
    def hidden(self) -> Tensor:
        """What keeps each hypothesis from looking at cells, added to its scores: (B, 1, K, P)."""
        return self.trails if self.near is None else self.trails + self.near

    @property
    def mask(self) -> Tensor:
        """The same as which of the cells it may look at: (B, 1, K, P)."""
        return self.hidden == 0

    @property
    def slots(self) -> Tensor:
        """The cell of each of its t positions: (B, K, t)."""
        rows, _, width, _ = self.trails.shape
        passed = (self.trails == 0).nonzero()[:, -1]  # (B K t,): in each path the first cell first
        return passed.view(rows, width, self.length)

    def grow(self) -> "Paths":
        """The paths one position on: hypothesis k goes through the k-th new cell, cell P + k."""
        rows, _, width, _ = self.trails.shape
        own = self._own()
        laid = own.expand(rows, 1, -1, -1)  # (B, 1, K, K)
        if self.clock is not None:
            first = sum(self.widths) + self.clock * width
            spot = first + torch.arange(width, device=own.device)  # (K,)
            return self._replace(trails=self.trails.index_copy(3, spot, laid), spot=spot)
        trails = torch.cat([self.trails, laid], dim=3)  # (B, 1, K, P + K)
        return Paths(trails, (*self.widths, width), newest=own)

    def _own(self) -> Tensor:
        """Through which of K new cells each of K hypotheses goes: (K, K)."""
        width = self.trails.shape[2]
        if self.newest is not None and len(self.newest) == width:
            return self.newest
        own = self.trails.new_zeros(width, width)
        return own.fill_(float("-inf")).fill_diagonal_(0.0) if width > 1 else own

    def steady(self, steps: int, clock: Tensor) -> "Paths":
        """The same, whose trails have room for so many `steps` more, counted by a `clock` ().

        It knows only how long it was when it was made. Cells of positions that are yet to come are
        there, and nobody sees them.
        """
        rows, _, width, filled = self.trails.shape
        trails = self.trails.new_full((rows, 1, width, filled + steps * width), float("-inf"))
        trails[..., :filled] = self.trails
        spot = torch.arange(width, device=clock.device)  # until the first step lays something down
        return Paths(trails, self.widths, newest=self._own(), clock=clock, spot=spot)

    def within(self, reach: int) -> "Paths":
        """The same, seeing nothing that was laid down more than `reach` before the newest."""
        near = self.places >= self.length - 1 - reach  # (P,)
        nothing = self.trails.new_zeros(near.shape)
        return self._replace(near=nothing.masked_fill_(~near, float("-inf")))

    def keep(self, sentences: Tensor) -> "Paths":
        """Those of `sentences` (B',) alone."""
        return self._replace(trails=self.trails[sentences])

    def branch(self, parents: Tensor) -> "Paths":
        """Those in which hypothesis k of sentence b continues `parents[b, k]`; (B, K')."""
        cells = parents[:, None, :, None].expand(-1, 1, -1, self.trails.shape[-1])  # (B, 1, K', P)
        return self._replace(trails=self.trails.gather(2, cells))


def recall(
    score: Score,
    queries: Tensor,
    cells: Cells,
    paths: Paths,
    *,
    site: Site,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    watch: Watch | None = None,
) -> Tensor:
    """What each hypothesis, with `queries` (B, H, K, D), finds in its own past: (B, H, K, D').

    `bias` (B, H, K, P) is added to the scores.
    All hypotheses of a sentence look at all its cells together, and the mask hides from each what
    is not its own. A watch is to see positions, not cells: for it, and in float64 as `attend` has
    it, each hypothesis gets a copy of its own cells, in the order of its positions.
    """
    factor = score.factor(queries.shape[-1])
    if watch is None and factor is not None and queries.dtype != torch.float64:
        if fits_few(queries) and not dropout:
            hidden = paths.hidden if bias is None else paths.hidden + bias
            return few(queries, cells.kv, hidden, factor=factor)
        return fused(queries, cells.kv, paths.mask, factor=factor, bias=bias, dropout=dropout)
    slots = paths.slots  # (B, K, t)
    rows = torch.arange(len(slots), device=slots.device)[:, None, None]  # (B, 1, 1)
    own = KeyValues(*(x[rows, :, slots].movedim(3, 1) for x in cells.kv))  # (B, H, K, t, D)
    mixed = plain(
        score,
        queries[..., None, :],  # (B, H, K, 1, D): the one query of each past
        own,
        _own(paths.mask, slots),
        site=site,
        bias=None if bias is None else _own(bias, slots),
        dropout=dropout,
        watch=None if watch is None else _by_hypothesis(watch),
    )
    return mixed.squeeze(-2)  # (B, H, K, D')


def _own(cells: Tensor, slots: Tensor) -> Tensor:
    """Of what is said of all P cells (B, H|1, K, P), what is said of one's own: (…, K, 1, t)."""
    slots = slots[:, None].expand(-1, cells.shape[1], -1, -1)  # (B, H|1, K, t)
    return cells.gather(-1, slots)[..., None, :]  # (B, H|1, K, 1, t)


def _by_hypothesis(watch: Watch) -> Watch:
    """`watch` for weights (B, H, K, 1, t), which it is to see as (B, H, K, t)."""

    def see(site: Site, weights: Tensor, /) -> Tensor:
        return watch(site, weights.squeeze(-2)).unsqueeze(-2)

    return see
