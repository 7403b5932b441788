"""The best of many, with no luck in it."""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.decoding.gpu.async_copy import is_on_cpu

CHUNK = 32
"""Entries of which only the largest is ranked at first."""

CPU_CHUNK = 4
"""The same in rows that a CPU has to sort."""
CPU_CHUNK_FROM = 4096
"""Entries to be sorted from which that pays."""
ARGMAX_UP_TO = 512
"""Entries up to which the largest one is found by comparing them one by one."""


class TopK(NamedTuple):
    """The best entries of each row, the best first."""

    values: Tensor  # (B, k)
    indices: Tensor  # (B, k)


def stable_topk(rows: Tensor, k: int) -> TopK:
    """The `k` largest of each row (B, n), equal ones in the order of their index.

    `torch.topk` leaves the order of equal values open, so that its answer may change with the
    device. A stable sort does not, but sorts everything: so each row is first cut into chunks. The
    k best entries lie in the k chunks of the best maxima, equal ones in order, as before the
    entries of any other chunk come the maxima of those k. Which these are is the same question
    again. On a CPU it takes about as long as `topk`.
    """
    if rows.shape[1] <= (ARGMAX_UP_TO if k == 1 else CHUNK * k):
        return _topk_by_sort(rows, k)
    return _topk_by_chunks(rows, k, CHUNK)


def stable_topk_of_sums(cells: Tensor, offsets: Tensor, k: int) -> TopK:
    """What `ranked` finds in the rows (B, K V) of the sums of cells (B, K, V) and `offsets` (B, K).

    Where V is a multiple of a chunk, no more than the entries of the best chunks are added up: to
    round a sum keeps the order, so that a chunk's largest sum is that of its largest entry.
    Otherwise all are, into `cells`.
    """
    rows, size = cells.flatten(1), cells.shape[-1]  # (B, K V)
    if size % CHUNK or rows.shape[1] <= CHUNK * k:
        return stable_topk(cells.add_(offsets[..., None]).flatten(1), k)
    maxima = (
        _chunk_maxima(rows, CHUNK).view(*offsets.shape, -1) + offsets[..., None]
    )  # (B, K, V / CHUNK)
    indices = _indices_of_best_chunks(maxima.flatten(1), k, CHUNK)  # (B, k CHUNK)
    sums = rows.gather(1, indices) + offsets.gather(1, indices // size)  # (B, k CHUNK)
    return _topk_at(sums, indices, k)


def _topk_by_chunks(rows: Tensor, k: int, chunk: int) -> TopK:
    """`ranked`, where only the entries of the best chunks are looked at one by one."""
    n = rows.shape[1]
    divisible = n - n % chunk
    indices = _indices_of_best_chunks(
        _chunk_maxima(rows[:, :divisible], chunk), k, chunk
    )  # (B, k chunk)
    if divisible < n:
        rest = torch.arange(divisible, n, device=rows.device).expand(
            len(rows), -1
        )  # (B, n % chunk)
        indices = torch.cat([indices, rest], 1)  # (B, m)
    return _topk_at(rows.gather(1, indices), indices, k)


def _chunk_maxima(rows: Tensor, chunk: int) -> Tensor:
    """The largest entry of each chunk: (B, n) -> (B, n / chunk)."""
    return rows.reshape(len(rows), -1, chunk).amax(-1)


def _indices_of_best_chunks(maxima: Tensor, k: int, chunk: int) -> Tensor:
    """Where all entries of the chunks of the k largest `maxima` (B, chunks) lie, rising: (B, m)."""
    chunks = stable_topk(maxima, k).indices.sort(dim=1).values  # (B, k)
    places = torch.arange(chunk, device=maxima.device)
    return (chunks[..., None] * chunk + places).flatten(1)  # (B, k chunk)


def _topk_at(entries: Tensor, indices: Tensor, k: int) -> TopK:
    """The k largest of `entries` (B, m), which lie at rising `indices` (B, m)."""
    best = _topk_by_sort(entries, k)
    return TopK(best.values, indices.gather(1, best.indices))


def _topk_by_sort(rows: Tensor, k: int) -> TopK:
    """`ranked` of rows that are short enough to look at every entry.

    A CPU sorts them one after the other, so there they are narrowed down once more.
    """
    if k == 1:
        return TopK(*rows.max(dim=1, keepdim=True))  # of equal ones the first
    if is_on_cpu(rows) and rows.numel() > CPU_CHUNK_FROM and rows.shape[1] > 2 * CPU_CHUNK * k:
        return _topk_by_chunks(rows, k, CPU_CHUNK)
    order = rows.sort(dim=1, descending=True, stable=True)
    return TopK(order.values[:, :k], order.indices[:, :k])
