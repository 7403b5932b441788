"""The best of many, with no luck in it."""

from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 32
"""Entries of which only the largest is ranked at first."""


class Ranked(NamedTuple):
    """The best entries of each row, the best first."""

    values: Tensor  # (B, k)
    indices: Tensor  # (B, k)


def ranked(rows: Tensor, k: int) -> Ranked:
    """The `k` largest of each row (B, n), equal ones in the order of their index.

    `torch.topk` leaves the order of equal values open, so that its answer may change with the
    device. A stable sort does not, but sorts everything: so each row is first cut into chunks. The
    k best entries lie in the k chunks of the best maxima, equal ones in order, as before the
    entries of any other chunk come the maxima of those k. Which these are is the same question
    again. On a CPU it takes about as long as `topk`.
    """
    n = rows.shape[1]
    if n <= CHUNK * k:
        order = rows.sort(dim=1, descending=True, stable=True)
        return Ranked(order.values[:, :k], order.indices[:, :k])
    even = n - n % CHUNK
    maxima = rows[:, :even].reshape(len(rows), -1, CHUNK).amax(-1)  # (B, chunks)
    chunks = ranked(maxima, k).indices.sort(dim=1).values  # (B, k), rising, and so all below
    places = torch.arange(CHUNK, device=rows.device)
    rest = torch.arange(even, n, device=rows.device).expand(len(rows), -1)  # (B, n % CHUNK)
    indices = torch.cat([(chunks[..., None] * CHUNK + places).flatten(1), rest], 1)  # (B, m)
    order = rows.gather(1, indices).sort(dim=1, descending=True, stable=True)  # (B, m)
    return Ranked(order.values[:, :k], indices.gather(1, order.indices[:, :k]))
