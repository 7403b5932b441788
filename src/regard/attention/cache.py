"""The past of many hypotheses at once, never moved.

A search drops hypotheses and continues others twice. Were each one's keys and values kept in a row
of its own, every such choice would copy them all. Here a step lays down one *cell* for each
hypothesis of a sentence, in all layers, behind the cells of the steps before, and there it stays:
P cells, shared by all hypotheses of the sentence. A hypothesis is then no more than the list of the
cells that it came by, and to choose others is to copy lists of small numbers.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import KeyValues, fused, plain
from regard.attention.scores import Score
from regard.types import Site, Watch


class Paths(NamedTuple):
    """By which cells each hypothesis came."""

    slots: Tensor  # (B, K, t) the cell of each of its t positions
    mask: Tensor  # (B, 1, K, P) the same, as which of the P cells it may look at
    places: Tensor  # (P,) the position at which each cell was laid down

    @classmethod
    def empty(cls, sentences: int, *, where: torch.device) -> "Paths":
        """One hypothesis for each sentence, which has been nowhere yet."""
        slots = torch.zeros(sentences, 1, 0, dtype=torch.long, device=where)
        mask = torch.zeros(sentences, 1, 1, 0, dtype=torch.bool, device=where)
        return cls(slots, mask, slots.new_zeros(0))

    @property
    def length(self) -> int:
        """How many positions each hypothesis has."""
        return self.slots.shape[2]

    def grow(self) -> "Paths":
        """The paths one position on: hypothesis k goes through the k-th new cell, cell P + k."""
        rows, width, _ = self.slots.shape
        own = torch.eye(width, dtype=torch.bool, device=self.mask.device)  # (K, K)
        newest = torch.arange(width, device=self.slots.device) + self.mask.shape[-1]  # (K,)
        return Paths(
            torch.cat([self.slots, newest[None, :, None].expand(rows, -1, -1)], dim=2),
            torch.cat([self.mask, own.expand(rows, 1, -1, -1)], dim=3),  # (B, 1, K, P + K)
            torch.cat([self.places, torch.full_like(newest, self.length)]),  # (P + K,)
        )

    def within(self, reach: int) -> "Paths":
        """The same, seeing nothing that was laid down more than `reach` before the newest."""
        near = self.places >= self.length - 1 - reach  # (P,)
        return self._replace(mask=self.mask & near)

    def keep(self, sentences: Tensor) -> "Paths":
        """Those of `sentences` (B',) alone."""
        return Paths(self.slots[sentences], self.mask[sentences], self.places)

    def branch(self, parents: Tensor) -> "Paths":
        """Those in which hypothesis k of sentence b continues `parents[b, k]`; (B, K')."""
        rows = torch.arange(len(parents), device=parents.device)[:, None]  # (B, 1)
        mask = self.mask[rows, :, parents].transpose(1, 2)  # (B, 1, K', P)
        return Paths(self.slots[rows, parents], mask, self.places)


def recall(
    score: Score,
    queries: Tensor,
    cells: KeyValues,
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
        return fused(queries, cells, paths.mask, factor=factor, bias=bias, dropout=dropout)
    rows = torch.arange(len(paths.slots), device=paths.slots.device)[:, None, None]  # (B, 1, 1)
    own = KeyValues(*(x[rows, :, paths.slots].movedim(3, 1) for x in cells))  # (B, H, K, t, D)
    mixed = plain(
        score,
        queries[..., None, :],  # (B, H, K, 1, D): the one query of each past
        own,
        _own(paths.mask, paths),
        site=site,
        bias=None if bias is None else _own(bias, paths),
        dropout=dropout,
        watch=None if watch is None else _by_hypothesis(watch),
    )
    return mixed.squeeze(-2)  # (B, H, K, D')


def _own(cells: Tensor, paths: Paths) -> Tensor:
    """Of what is said of all P cells (B, H|1, K, P), what is said of one's own: (…, K, 1, t)."""
    slots = paths.slots[:, None].expand(-1, cells.shape[1], -1, -1)  # (B, H|1, K, t)
    return cells.gather(-1, slots)[..., None, :]  # (B, H|1, K, 1, t)


def _by_hypothesis(watch: Watch) -> Watch:
    """`watch` for weights (B, H, K, 1, t), which it is to see as (B, H, K, t)."""

    def see(site: Site, weights: Tensor, /) -> Tensor:
        return watch(site, weights.squeeze(-2)).unsqueeze(-2)

    return see
