"""Attention of long sequences to what is near, in time and memory linear in their length.

Where each query sees no further than `size` places, a sequence is cut into blocks of `size`: all
that a block's queries may see lies in the block itself and its neighbours. Each block then attends
as if it were a sentence of its own, N blocks of W queries to at most 3 W keys each: T · 3 W scores
in place of T · T.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import KeyValues
from regard.attention.positions import relative_positions


class SlidingWindow(NamedTuple):
    """How far a query sees; at least one of the two is not 0."""

    back: int
    ahead: int

    @property
    def size(self) -> int:
        """W, the queries of a block."""
        return max(self)

    @property
    def room(self) -> int:
        """The keys that a block looks at: its own, and those of neighbours that can be seen."""
        return self.size * (1 + (self.back > 0) + (self.ahead > 0))

    def allows(self, relative_positions: Tensor) -> Tensor:
        """Whether a key that stands `offsets` behind a query is in sight."""
        return (relative_positions >= -self.back) & (relative_positions <= self.ahead)


class LocalBlocks(NamedTuple):
    """What `attend` is to be given: N blocks of each of B sequences, as if B N sentences."""

    queries: Tensor  # (B N, H, W, K)
    kv: KeyValues  # (B N, H, room, K)
    mask: Tensor  # (B N, 1, W, room)
    relative_positions: Tensor  # (W, room)


def split_blocks(queries: Tensor, kv: KeyValues, real: Tensor, span: SlidingWindow) -> LocalBlocks:
    """The blocks of `queries` and `kv` (B, H, T, K), of whose keys `real` (B|1, 1, 1, T) are."""
    rows, _, length, _ = queries.shape
    size, before = span.size, span.size if span.back else 0
    tail = -length % size

    def neighbours(x: Tensor) -> Tensor:
        """The keys that each block can see: (B, H, T, K) -> (B N, H, room, K)."""
        after = tail + (size if span.ahead else 0)
        wide = F.pad(x, (0, 0, before, after))  # (B, H, before + T + after, K)
        windows = wide.unfold(2, span.room, size)  # (B, H, N, K, room)
        return windows.permute(0, 2, 1, 4, 3).flatten(0, 1)

    own = torch.unflatten(F.pad(queries, (0, 0, 0, tail)), 2, (-1, size))  # (B, H, N, W, K)
    distances = relative_positions(
        size, span.room, first=-before, where=queries.device
    )  # (W, room)
    seen = neighbours(real.expand(rows, 1, 1, length).mT).mT  # (B N, 1, 1, room)
    return LocalBlocks(
        own.transpose(1, 2).flatten(0, 1),
        KeyValues(*map(neighbours, kv)),
        seen & span.allows(distances),
        distances,
    )


def merge_blocks(mixed: Tensor, rows: int, length: int) -> Tensor:
    """What the blocks (B N, H, W, K) of `rows` sequences found, in one: (B, H, T, K)."""
    blocks = torch.unflatten(mixed, 0, (rows, -1)).transpose(1, 2)  # (B, H, N, W, K)
    return blocks.flatten(2, 3)[:, :, :length]
