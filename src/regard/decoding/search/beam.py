"""Beam search and, as a beam of 1, greedy search: which candidates are kept at each step."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.search.hypotheses import Hypotheses
from regard.kernels.beam_update import Candidates
from regard.kernels.dispatch import use_topk_logits
from regard.kernels.topk_logits import TokenRules, topk_continuations

CHUNK = 32
"""`stable_topk` ranks the maxima of chunks of this many entries first."""
CPU_CHUNK, CPU_CHUNK_FROM = 4, 4096
"""A second, smaller chunk for rows that a CPU has to sort, and the entries from which it pays."""
ARGMAX_UP_TO = 512
"""Entries of a row up to which `max` is faster than chunks."""
TOPK_FROM_ROWS = 16
"""Rows from which chunks are faster than `max` in greedy search on a CPU: `amax` over chunks is
vectorized, `max` with indices is not."""


@dataclass(frozen=True)
class BeamSelector:
    """Selects the most likely continuations of all hypotheses of a sentence.

    All hypotheses have the same length, so a length penalty cannot change their order. The coverage
    penalty ranks finished hypotheses only: before that, most of the source is rightly not covered.
    Equally likely candidates are ordered by their parents, then by their tokens.
    """

    size: int

    @property
    def initial_width(self) -> int:
        return 1

    @property
    def width(self) -> int:
        return self.size

    @property
    def num_candidates(self) -> int:
        """Twice the beam, as each hypothesis has one candidate that ends: `size` others remain.

        Greedy search has a single candidate: if it is EOS, the search is over.
        """
        return 1 if self.size == 1 else 2 * self.size

    def fused(
        self, logits: Tensor, hypotheses: Hypotheses, token_rules: TokenRules
    ) -> Candidates | None:
        """The candidates by a kernel that reads `logits` (B, K, V) once; None: not supported."""
        count = min(self.num_candidates, logits.shape[1] * logits.shape[2])
        if not use_topk_logits(logits, count):
            return None
        best = topk_continuations(logits, hypotheses.log_probs, count, token_rules)  # (B, C)
        return best._replace(parents=None) if self.size == 1 else best

    def __call__(self, log_probs: Tensor, hypotheses: Hypotheses) -> Candidates:
        """The best candidates (B, C) of K V; `log_probs` (B, K, V) may be overwritten."""
        if self.size == 1 and len(log_probs) < TOPK_FROM_ROWS:
            totals = log_probs.add_(hypotheses.log_probs[..., None]).flatten(1)  # (B, V)
            best = TopK(*totals.max(dim=1, keepdim=True))  # (B, 1), at equal values the first
            return Candidates(best.values, best.indices, None)
        (cells, vocabulary) = log_probs.shape[1:]
        count = min(self.num_candidates, cells * vocabulary)
        best = stable_topk_of_sums(log_probs, hypotheses.log_probs, count)  # (B, C)
        if self.size == 1:
            return Candidates(best.values, best.indices, None)
        return Candidates(best.values, best.indices % vocabulary, best.indices // vocabulary)


class TopK(NamedTuple):
    """The largest entries of each row, in descending order."""

    values: Tensor  # (B, k)
    indices: Tensor  # (B, k)


def stable_topk(rows: Tensor, k: int) -> TopK:
    """Deterministic top-k of each row (B, n): equal values are ordered by index.

    `torch.topk` leaves the order of equal values open, so that it may differ between devices. A
    stable sort of whole rows is slow, so each row is split into chunks and only the k chunks with
    the largest maxima are sorted: every other chunk has k entries before it. Selecting these chunks
    is the same problem on a smaller row. On a CPU this is about as fast as `torch.topk`.
    """
    if rows.shape[1] <= (ARGMAX_UP_TO if k == 1 else CHUNK * k):
        return _topk_by_sort(rows, k)
    return _topk_by_chunks(rows, k, CHUNK)


def stable_topk_of_sums(cells: Tensor, offsets: Tensor, k: int) -> TopK:
    """`stable_topk` of the rows (B, K V) of `cells` (B, K, V) + `offsets` (B, K).

    If V is a multiple of a chunk, only the entries of the best chunks are added: rounding is
    monotonic, so that the largest sum of a chunk is that of its largest entry. Otherwise all sums
    are written into `cells`.
    """
    rows, size = cells.flatten(1), cells.shape[-1]  # (B, K V)
    if size % CHUNK or rows.shape[1] <= CHUNK * k:
        return stable_topk(cells.add_(offsets[..., None]).flatten(1), k)
    maxima = _chunk_maxima(rows, CHUNK).view(*offsets.shape, -1)  # (B, K, V / CHUNK)
    maxima = (maxima + offsets[..., None]).flatten(1)  # (B, K V / CHUNK)
    indices = _indices_of_best_chunks(maxima, k, CHUNK)  # (B, k CHUNK)
    sums = rows.gather(1, indices) + offsets.gather(1, indices // size)  # (B, k CHUNK)
    return _topk_at(sums, indices, k)


def _topk_by_chunks(rows: Tensor, k: int, chunk: int) -> TopK:
    """`stable_topk` of the entries of the best chunks and of the rest behind the last chunk."""
    n = rows.shape[1]
    divisible = n - n % chunk
    maxima = _chunk_maxima(rows[:, :divisible], chunk)  # (B, n // chunk)
    indices = _indices_of_best_chunks(maxima, k, chunk)  # (B, k chunk)
    if divisible < n:
        rest = torch.arange(divisible, n, device=rows.device).expand(len(rows), -1)
        indices = torch.cat([indices, rest], 1)  # (B, k chunk + n % chunk)
    return _topk_at(rows.gather(1, indices), indices, k)


def _chunk_maxima(rows: Tensor, chunk: int) -> Tensor:
    """The largest entry of each chunk: (B, n) -> (B, n / chunk)."""
    return rows.reshape(len(rows), -1, chunk).amax(-1)


def _indices_of_best_chunks(maxima: Tensor, k: int, chunk: int) -> Tensor:
    """The indices (B, k chunk), ascending, of all entries of the k chunks with the best maxima."""
    chunks = stable_topk(maxima, k).indices.sort(dim=1).values  # (B, k)
    offsets = torch.arange(chunk, device=maxima.device)
    return (chunks[..., None] * chunk + offsets).flatten(1)  # (B, k chunk)


def _topk_at(entries: Tensor, indices: Tensor, k: int) -> TopK:
    """The k largest of `entries` (B, m), which stand at ascending `indices` (B, m) of a row."""
    best = _topk_by_sort(entries, k)
    return TopK(best.values, indices.gather(1, best.indices))


def _topk_by_sort(rows: Tensor, k: int) -> TopK:
    """`stable_topk` of short rows, on a CPU by smaller chunks: it sorts row after row."""
    if k == 1:
        return TopK(*rows.max(dim=1, keepdim=True))  # at equal values the first
    if rows.is_cpu and rows.numel() > CPU_CHUNK_FROM and rows.shape[1] > 2 * CPU_CHUNK * k:
        return _topk_by_chunks(rows, k, CPU_CHUNK)
    order = rows.sort(dim=1, descending=True, stable=True)
    return TopK(order.values[:, :k], order.indices[:, :k])
