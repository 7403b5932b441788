"""The best of many, with no luck in it."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Ranked(NamedTuple):
    """The best entries of each row, the best first."""

    values: Tensor  # (B, k)
    indices: Tensor  # (B, k)


def ranked(rows: Tensor, k: int) -> Ranked:
    """The `k` largest of each row (B, n), equal ones in the order of their index.

    `torch.topk` leaves the order of equal values open, so that its answer may change with the
    device. Here each row is cut into chunks: the k best entries lie in the k chunks with the best
    maxima, of equal ones the first, since any other chunk has k entries before it. So n entries
    are only read once, and about 2 √(kn) are sorted, by a sort that is stable.
    """
    n = rows.shape[1]
    width = max(1, math.isqrt(n // k))
    even = n - n % width
    maxima = rows[:, :even].reshape(len(rows), -1, width).amax(-1)  # (B, chunks)
    chunks = maxima.sort(dim=1, descending=True, stable=True).indices[:, :k]  # (B, <= k)
    starts = chunks.sort(dim=1).values[..., None] * width  # (B, <= k, 1)
    places = torch.arange(width, device=rows.device)  # (width,)
    rest = torch.arange(even, n, device=rows.device).expand(len(rows), -1)  # (B, n % width)
    indices = torch.cat([(starts + places).flatten(1), rest], 1)  # (B, m), rising
    order = rows.gather(1, indices).sort(dim=1, descending=True, stable=True)  # (B, m)
    return Ranked(order.values[:, :k], indices.gather(1, order.indices[:, :k]))
