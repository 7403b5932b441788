"""Beam search and, as a beam of 1, greedy search: the candidates of each step.

The beam is pruned twice: `BeamSelector` keeps the best 2K of the K V continuations of a sentence,
and `continuing_candidates` of `hypotheses.py` the best K of these that do not end.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from regard.decoding.search.hypotheses import Hypotheses
from regard.kernels.beam_update import Candidates
from regard.kernels.dispatch import use_topk_logits
from regard.kernels.topk_logits import TokenRules, topk_continuations

CHUNK = 32  # `stable_topk` ranks the maxima of chunks of this many entries first
CPU_CHUNK, CPU_CHUNK_FROM = 4, 4096  # smaller chunks where a CPU sorts more entries than this
ARGMAX_ENTRIES, ARGMAX_ROWS = 512, 16
"""Top-1 by `max` for rows up to 512 entries or fewer than 16 rows; beyond, chunks are faster, as a
CPU does not vectorize `max` with indices."""


@dataclass(frozen=True)
class BeamSelector:
    """Selects the most likely continuations of all hypotheses of a sentence; equally likely ones
    are ordered by parent, then by token. Penalties rank finished hypotheses only: all continuations
    of a step have the same length, and unfinished ones need not cover the source yet.
    """

    width: int
    initial_width: ClassVar = 1

    @property
    def num_candidates(self) -> int:
        """2K: at most K of them end in EOS, so K that continue remain; 1 for greedy search."""
        return 1 if self.width == 1 else 2 * self.width

    def fused(
        self, logits: Tensor, hypotheses: Hypotheses, token_rules: TokenRules
    ) -> Candidates | None:
        """The candidates by a kernel that reads `logits` (B, K, V) once; None: not supported."""
        count = min(self.num_candidates, logits.shape[1] * logits.shape[2])
        if not use_topk_logits(logits, count):
            return None
        best = topk_continuations(logits, hypotheses.log_probs, count, token_rules)  # (B, C)
        return best._replace(parents=None) if self.width == 1 else best

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> Candidates:
        """The best candidates (B, C) of K V; `log_probs` (B, K, V) may be overwritten."""
        totals = log_probs.add_(hypotheses.log_probs[..., None]).flatten(1)  # (B, K V)
        best = stable_topk(totals, min(self.num_candidates, totals.shape[1]))  # (B, C)
        if self.width == 1:
            return Candidates(best.values, best.indices, None)
        vocabulary = log_probs.shape[-1]
        return Candidates(best.values, best.indices % vocabulary, best.indices // vocabulary)


class TopK(NamedTuple):
    """The largest entries of each row, in descending order."""

    values: Tensor  # (B, k)
    indices: Tensor  # (B, k)


def stable_topk(rows: Tensor, k: int) -> TopK:
    """Deterministic top-k of each row (B, n): unlike in `torch.topk`, equal values keep their
    order.

    Sorting whole rows is slow, so only the k chunks with the largest maxima are sorted: every other
    chunk has k entries before it. Selecting these chunks is the same problem on a smaller row.
    """
    if k == 1 and (rows.shape[1] <= ARGMAX_ENTRIES or len(rows) < ARGMAX_ROWS):
        return TopK(*rows.max(dim=1, keepdim=True))  # at equal values the first
    return _topk_by_chunks(rows, k, CHUNK) if rows.shape[1] > CHUNK * k else _topk_by_sort(rows, k)


def _topk_by_chunks(rows: Tensor, k: int, chunk: int) -> TopK:
    """`stable_topk` of the entries of the best chunks and of the rest after the last chunk."""
    n = rows.shape[1]
    divisible = n - n % chunk
    maxima = rows[:, :divisible].reshape(len(rows), -1, chunk).amax(-1)  # (B, n // chunk)
    chunks = stable_topk(maxima, k).indices.sort(dim=1).values  # (B, k)
    indices = chunks[..., None] * chunk + torch.arange(chunk, device=rows.device)  # (B, k, chunk)
    rest = torch.arange(divisible, n, device=rows.device).expand(len(rows), -1)
    indices = torch.cat([indices.flatten(1), rest], 1)  # (B, k chunk + n % chunk), ascending
    best = _topk_by_sort(rows.gather(1, indices), k)
    return TopK(best.values, indices.gather(1, best.indices))


def _topk_by_sort(rows: Tensor, k: int) -> TopK:
    """`stable_topk` of short rows, on a CPU by smaller chunks: it sorts row after row."""
    if k == 1:
        return TopK(*rows.max(dim=1, keepdim=True))  # at equal values the first
    if rows.is_cpu and rows.numel() > CPU_CHUNK_FROM and rows.shape[1] > 2 * CPU_CHUNK * k:
        return _topk_by_chunks(rows, k, CPU_CHUNK)
    order = rows.sort(dim=1, descending=True, stable=True)
    return TopK(order.values[:, :k], order.indices[:, :k])
