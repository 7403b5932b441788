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

    @classmethod
    def empty(cls, sentences: int, *, where: torch.device) -> "Paths":
        """One hypothesis for each sentence, which has been nowhere yet."""
        slots = torch.zeros(sentences, 1, 0, dtype=torch.long, device=where)
        return cls(slots, torch.zeros(sentences, 1, 1, 0, dtype=torch.bool, device=where))

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
        )

    def keep(self, sentences: Tensor) -> "Paths":
        """Those of `sentences` (B',) alone."""
        return Paths(self.slots[sentences], self.mask[sentences])

    def branch(self, parents: Tensor) -> "Paths":
        """Those in which hypothesis k of sentence b continues `parents[b, k]`; (B, K')."""
        rows = torch.arange(len(parents), device=parents.device)[:, None]  # (B, 1)
        return Paths(self.slots[rows, parents], self.mask[rows, :, parents].transpose(1, 2))


def recall(
    score: Score,
    queries: Tensor,
    cells: KeyValues,
    paths: Paths,
    *,
    site: Site,
    dropout: float = 0.0,
    watch: Watch | None = None,
) -> Tensor:
    """What each hypothesis, with `queries` (B, H, K, D), finds in its own past: (B, H, K, D').

    All hypotheses of a sentence look at all its cells together, and the mask hides from each what
    is not its own. A watch is to see positions, not cells: for it, and in float64 as `attend` has
    it, each hypothesis gets a copy of its own cells, in the order of its positions.
    """
    factor = score.factor(queries.shape[-1])
    if watch is None and factor is not None and queries.dtype != torch.float64:
        return fused(queries, cells, paths.mask, factor=factor, dropout=dropout)
    rows = torch.arange(len(paths.slots), device=paths.slots.device)[:, None, None]  # (B, 1, 1)
    own = KeyValues(*(x[rows, :, paths.slots].movedim(3, 1) for x in cells))  # (B, H, K, t, D)
    mixed = plain(
        score,
        queries[..., None, :],  # (B, H, K, 1, D): the one query of each past
        own,
        paths.mask.new_ones(1),
        site=site,
        dropout=dropout,
        watch=None if watch is None else _by_hypothesis(watch),
    )
    return mixed.squeeze(-2)  # (B, H, K, D')


def _by_hypothesis(watch: Watch) -> Watch:
    """`watch` for weights (B, H, K, 1, t), which it is to see as (B, H, K, t)."""

    def see(site: Site, weights: Tensor, /) -> Tensor:
        return watch(site, weights.squeeze(-2)).unsqueeze(-2)

    return see
