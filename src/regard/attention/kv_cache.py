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

from regard.attention.attend import KeyValues, fused_attention, plain_attention
from regard.attention.decode_attention import attend_step, use_attend_step
from regard.attention.scores import Score
from regard.types import AttentionHook, Site

BUFFER_STEPS = 16
"""Steps that a room of cells has space for when it is made."""
CONTIGUOUS_MAX_CELLS = 32
"""Cells up to which, on a CPU and with one for each sentence and step, all are copied behind each
other again. What is read of each sentence would lie in short stretches with the room between them,
and a processor that finds such gaps does not fetch the next stretch ahead of time: to read takes up
to five times as long, which is more than to copy."""


@dataclass
class _Buffer:
    """Memory for cells, of which some are laid down; they are never changed any more."""

    kv: KeyValues  # (B, H, space, D)
    num_filled: int

    def can_append(self, first: int, last: int) -> bool:
        """Whether cells `first` to `last` may be laid down here: nobody else has done so."""
        same_mode = self.kv.keys.is_inference() == torch.is_inference_mode_enabled()
        return same_mode and self.num_filled == first and last <= self.kv.keys.shape[2]


class KVCache(NamedTuple):
    """The P cells of each sentence in one layer; a value.

    Who appends to it gets all cells back with the new ones behind them, and shares the memory of
    the old ones. There is room for more than are there, so that most steps copy nothing but what is
    new; a second one who appends to the same cells gets a room of his own.
    """

    kv: KeyValues  # (B, H, P, D)
    buffer: _Buffer | None = None

    def select_sentences(self, sentences: Tensor) -> "KVCache":
        """Those of some `sentences` (B',) alone, with as much room for more."""
        if self.buffer is None or torch.is_grad_enabled():
            return KVCache(self.kv.select_sentences(sentences))
        num_filled = self.kv.keys.shape[2]
        buffer = KeyValues(*(x.new_empty(len(sentences), *x.shape[1:]) for x in self.buffer.kv))
        kept = KeyValues(*(x[:, :, :num_filled] for x in buffer))
        for old, new in zip(self.kv, kept, strict=True):
            torch.index_select(old, 0, sentences, out=new)  # at once to its place: half the work
        return KVCache(kept, _Buffer(buffer, num_filled))

    def to_static(self, more: int) -> "KVCache":
        """These, and behind them `more` that hold nothing yet: see `Paths.steady`."""
        capacity = self.kv.keys.shape[2] + more
        return KVCache(KeyValues(*(_with_capacity(x, capacity, empty=0.0) for x in self.kv)))

    def append(self, added: KeyValues, write_index: Tensor | None = None) -> "KVCache":
        """These, and `later` ones (B, H, K, D) behind them.

        Those of a steady past are laid down in it, at their `spot` (K,).
        """
        if write_index is not None:
            for place, new in zip(self.kv, added, strict=True):
                place.index_copy_(2, write_index, new)
            return self
        first, buffer = self.kv.keys.shape[2], self.buffer
        last = first + added.keys.shape[2]
        if torch.is_grad_enabled() or _stays_contiguous(added, last):
            return KVCache(self.kv.append(added))  # gradients want all that was read as it was
        if buffer is None or not buffer.can_append(first, last):
            capacity = max(2 * first, first + BUFFER_STEPS * (last - first))
            buffer = _Buffer(KeyValues(*(_with_capacity(x, capacity) for x in self.kv)), first)
        for place, new in zip(buffer.kv, added, strict=True):
            place[:, :, first:last] = new
        buffer.num_filled = last
        return KVCache(KeyValues(*(x[:, :, :last] for x in buffer.kv)), buffer)


def _stays_contiguous(added: KeyValues, cache: int) -> bool:
    """Whether all `cells`, with these `later` ones (B, H, K, D), had better have no room."""
    return (
        cache <= CONTIGUOUS_MAX_CELLS
        and added.keys.shape[2] == 1
        and added.keys.device.type == "cpu"
    )


def _with_capacity(x: Tensor, capacity: int, *, empty: float | None = None) -> Tensor:
    """`x` (B, H, P, D) at the beginning of (B, H, space, D); whatever is behind it, or `empty`."""
    rows, heads, num_filled, width = x.shape
    buffer = x.new_empty(rows, heads, capacity, width)
    buffer[:, :, :num_filled] = x
    if empty is not None:
        buffer[:, :, num_filled:] = empty
    return buffer


class Ancestry(NamedTuple):
    """By which cells each hypothesis came."""

    ancestor_bias: Tensor  # (B, 1, K, P): 0 where it passed, else -inf, to be added to scores
    cells_per_step: tuple[int, ...]  # t of them, with the sum P: cells laid down at each position
    window_bias: Tensor | None = None  # (P,) the same for where it may look at all; none: anywhere
    new_bias: Tensor | None = None  # (K, K) what a step lays down in `trails`, if it laid down K
    step_counter: Tensor | None = None  # () of a steady form, steps since it was made
    write_index: Tensor | None = None  # (K,) of a steady form, the cells of its newest position

    @classmethod
    def empty(cls, sentences: int, *, like: Tensor) -> "Ancestry":
        """One hypothesis for each sentence, which has been nowhere yet; scores are `like` this."""
        return cls(like.new_zeros(sentences, 1, 1, 0), ())

    @property
    def length(self) -> int:
        """How many positions each hypothesis has."""
        return len(self.cells_per_step)

    @property
    def next_position(self) -> int | Tensor:
        """The position that comes next; a steady form knows it as a tensor ()."""
        return self.length if self.step_counter is None else self.length + self.step_counter

    @property
    def positions(self) -> Tensor:
        """The position (P,) at which each cell was laid down."""
        where, first = self.ancestor_bias.device, 0
        runs = [torch.arange(0, device=where)]
        for width, same in groupby(
            self.cells_per_step
        ):  # as a tensor they would be waited for by a GPU
            last = first + len(list(same))
            runs.append(torch.arange(first, last, device=where).repeat_interleave(width))
            first = last
        return torch.cat(runs)

    @property
    def bias(self) -> Tensor:
        """What keeps each hypothesis from looking at cells, added to its scores: (B, 1, K, P)."""
        return (
            self.ancestor_bias
            if self.window_bias is None
            else self.ancestor_bias + self.window_bias
        )

    @property
    def mask(self) -> Tensor:
        """The same as which of the cells it may look at: (B, 1, K, P)."""
        return self.bias == 0

    @property
    def slots(self) -> Tensor:
        """The cell of each of its t positions: (B, K, t)."""
        rows, _, width, _ = self.ancestor_bias.shape
        visited = (self.ancestor_bias == 0).nonzero()[
            :, -1
        ]  # (B K t,): in each path the first cell first
        return visited.view(rows, width, self.length)

    def extend(self) -> "Ancestry":
        """The paths one position on: hypothesis k goes through the k-th new cell, cell P + k."""
        rows, _, width, _ = self.ancestor_bias.shape
        own = self._own()
        new_columns = own.expand(rows, 1, -1, -1)  # (B, 1, K, K)
        if self.step_counter is not None:
            first = sum(self.cells_per_step) + self.step_counter * width
            write_index = first + torch.arange(width, device=own.device)  # (K,)
            return self._replace(
                ancestor_bias=self.ancestor_bias.index_copy(3, write_index, new_columns),
                write_index=write_index,
            )
        ancestor_bias = torch.cat([self.ancestor_bias, new_columns], dim=3)  # (B, 1, K, P + K)
        return Ancestry(ancestor_bias, (*self.cells_per_step, width), new_bias=own)

    def _own(self) -> Tensor:
        """Through which of K new cells each of K hypotheses goes: (K, K)."""
        width = self.ancestor_bias.shape[2]
        if self.new_bias is not None and len(self.new_bias) == width:
            return self.new_bias
        own = self.ancestor_bias.new_zeros(width, width)
        return own.fill_(float("-inf")).fill_diagonal_(0.0) if width > 1 else own

    def to_static(self, steps: int, step_counter: Tensor) -> "Ancestry":
        """The same, whose trails have room for so many `steps` more, counted by a `clock` ().

        It knows only how long it was when it was made. Cells of positions that are yet to come are
        there, and nobody sees them.
        """
        rows, _, width, num_filled = self.ancestor_bias.shape
        ancestor_bias = self.ancestor_bias.new_full(
            (rows, 1, width, num_filled + steps * width), float("-inf")
        )
        ancestor_bias[..., :num_filled] = self.ancestor_bias
        write_index = torch.arange(
            width, device=step_counter.device
        )  # until the first step lays something down
        return Ancestry(
            ancestor_bias,
            self.cells_per_step,
            new_bias=self._own(),
            step_counter=step_counter,
            write_index=write_index,
        )

    def windowed(self, reach: int) -> "Ancestry":
        """The same, seeing nothing that was laid down more than `reach` before the newest."""
        window_bias = self.positions >= self.length - 1 - reach  # (P,)
        zeros = self.ancestor_bias.new_zeros(window_bias.shape)
        return self._replace(window_bias=zeros.masked_fill_(~window_bias, float("-inf")))

    def select_sentences(self, sentences: Tensor) -> "Ancestry":
        """Those of `sentences` (B',) alone."""
        return self._replace(ancestor_bias=self.ancestor_bias[sentences])

    def reorder(self, parents: Tensor) -> "Ancestry":
        """Those in which hypothesis k of sentence b continues `parents[b, k]`; (B, K')."""
        cache = parents[:, None, :, None].expand(
            -1, 1, -1, self.ancestor_bias.shape[-1]
        )  # (B, 1, K', P)
        return self._replace(ancestor_bias=self.ancestor_bias.gather(2, cache))


def self_cached(
    score: Score,
    queries: Tensor,
    cache: KVCache,
    ancestry: Ancestry,
    *,
    site: Site,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    hook: AttentionHook | None = None,
) -> Tensor:
    """What each hypothesis, with `queries` (B, H, K, D), finds in its own past: (B, H, K, D').

    `bias` (B, H, K, P) is added to the scores.
    All hypotheses of a sentence look at all its cells together, and the mask hides from each what
    is not its own. A watch is to see positions, not cells: for it, and in float64 as `attend` has
    it, each hypothesis gets a copy of its own cells, in the order of its positions.
    """
    scale = score.scale(queries.shape[-1])
    if hook is None and scale is not None and queries.dtype != torch.float64:
        if use_attend_step(queries) and not dropout:
            bias = ancestry.bias if bias is None else ancestry.bias + bias
            return attend_step(queries, cache.kv, bias, scale=scale)
        return fused_attention(
            queries, cache.kv, ancestry.mask, scale=scale, bias=bias, dropout=dropout
        )
    slots = ancestry.slots  # (B, K, t)
    rows = torch.arange(len(slots), device=slots.device)[:, None, None]  # (B, 1, 1)
    own = KeyValues(*(x[rows, :, slots].movedim(3, 1) for x in cache.kv))  # (B, H, K, t, D)
    mixed = plain_attention(
        score,
        queries[..., None, :],  # (B, H, K, 1, D): the one query of each past
        own,
        _own(ancestry.mask, slots),
        site=site,
        bias=None if bias is None else _own(bias, slots),
        dropout=dropout,
        hook=None if hook is None else _hook_by_hypothesis(hook),
    )
    return mixed.squeeze(-2)  # (B, H, K, D')


def _own(cache: Tensor, slots: Tensor) -> Tensor:
    """Of what is said of all P cells (B, H|1, K, P), what is said of one's own: (…, K, 1, t)."""
    slots = slots[:, None].expand(-1, cache.shape[1], -1, -1)  # (B, H|1, K, t)
    return cache.gather(-1, slots)[..., None, :]  # (B, H|1, K, 1, t)


def _hook_by_hypothesis(hook: AttentionHook) -> AttentionHook:
    """`watch` for weights (B, H, K, 1, t), which it is to see as (B, H, K, t)."""

    def hooked(site: Site, weights: Tensor, /) -> Tensor:
        return hook(site, weights.squeeze(-2)).unsqueeze(-2)

    return hooked
