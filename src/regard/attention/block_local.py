"""Sliding-window attention in blocks: time and memory linear in the length of a sequence.

With blocks of W positions, W being the reach of the window, all keys that a block's queries may
attend to lie in the block and its neighbours: T · 3 W scores instead of T · T.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import KeyValues
from regard.attention.positions import relative_positions


class SlidingWindow(NamedTuple):
    """How many positions before and after its own a query attends to; not both are 0."""

    back: int
    ahead: int

    @property
    def size(self) -> int:
        """W, the queries of a block."""
        return max(self)

    @property
    def num_keys(self) -> int:
        """The keys of a block: its own, and those of the neighbours within reach."""
        return self.size * (1 + (self.back > 0) + (self.ahead > 0))

    def allows(self, relative_positions: Tensor) -> Tensor:
        """Whether a key at a relative position to the query is inside the window."""
        return (relative_positions >= -self.back) & (relative_positions <= self.ahead)


class LocalBlocks(NamedTuple):
    """Arguments of `attend`: N blocks of each of B sequences, as B N sentences."""

    queries: Tensor  # (B N, H, W, K)
    kv: KeyValues  # (B N, H, num_keys, K)
    mask: Tensor  # (B N, 1, W, num_keys)
    relative_positions: Tensor  # (W, num_keys)


def split_blocks(
    queries: Tensor, kv: KeyValues, real: Tensor, window: SlidingWindow
) -> LocalBlocks:
    """The blocks of `queries` and `kv` (B, H, T, K); `real` (B|1, 1, 1, T) masks the keys."""
    rows, _, length, _ = queries.shape
    size, before = window.size, window.size if window.back else 0
    tail = -length % size

    def neighbours(x: Tensor) -> Tensor:
        """The keys of each block: (B, H, T, K) -> (B N, H, num_keys, K)."""
        after = tail + (size if window.ahead else 0)
        padded = F.pad(x, (0, 0, before, after))  # (B, H, before + T + after, K)
        windows = padded.unfold(2, window.num_keys, size)  # (B, H, N, K, num_keys)
        return windows.permute(0, 2, 1, 4, 3).flatten(0, 1)

    blocks = torch.unflatten(F.pad(queries, (0, 0, 0, tail)), 2, (-1, size))  # (B, H, N, W, K)
    distances = relative_positions(size, window.num_keys, first=-before, device=queries.device)
    mask = neighbours(real.expand(rows, 1, 1, length).mT).mT  # (B N, 1, 1, num_keys)
    return LocalBlocks(
        blocks.transpose(1, 2).flatten(0, 1),
        KeyValues(*map(neighbours, kv)),
        mask & window.allows(distances),
        distances,
    )


def merge_blocks(mixed: Tensor, rows: int, length: int) -> Tensor:
    """The outputs of all blocks (B N, H, W, K) of `rows` sequences as (B, H, T, K)."""
    blocks = torch.unflatten(mixed, 0, (rows, -1)).transpose(1, 2)  # (B, H, N, W, K)
    return blocks.flatten(2, 3)[:, :, :length]
