"""Attention of a sequence to itself: where distances count and sight may be short."""

import torch
from torch import Tensor

from regard.attention.attend import KeyValues, attend
from regard.attention.blocks import Span, cut, join
from regard.attention.cache import Paths, recall
from regard.attention.multihead import MultiHeadAttention, merge_heads
from regard.attention.relative import RelativeKeys, offsets
from regard.attention.rotary import rotate
from regard.types import Site, Watch


class SelfAttention(MultiHeadAttention):
    """Multi-head attention whose queries and keys are places of one sequence.

    `rotary` turns both by their positions; `relative` favours keys by their distance; `span` lets
    a query see no further than that.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        rotary: bool = False,
        relative: RelativeKeys | None = None,
        span: Span | None = None,
    ) -> None:
        super().__init__(width, heads, dropout=dropout, bias=bias)
        self.rotary, self.relative, self.span = rotary, relative, span

    def project_all(self, x: Tensor, positions: Tensor | None = None) -> tuple[Tensor, KeyValues]:
        """Queries, and keys and values, of `x` (B, T, D), which stands at `positions` (T,) or (1,).

        From 0 on, if they are not given.
        """
        queries, kv = super().project_all(x)
        if not self.rotary:
            return queries, kv
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        return rotate(queries, positions), KeyValues(rotate(kv.keys, positions), kv.values)

    def forward(
        self,
        queries: Tensor,
        kv: KeyValues,
        mask: Tensor,
        *,
        site: Site,
        watch: Watch | None = None,
    ) -> Tensor:
        """What `queries` (B, H, T, K) find in `kv` where `mask` (B|1, 1, T|1, T) lets them look.

        Where a span does too, in blocks if that is less work; `mask` then tells of keys alone. As
        with fused kernels, a watch and float64 have the plain formula.
        """
        if self.span is None and self.relative is None:
            return super().forward(queries, kv, mask, site=site, watch=watch)
        rows, _, length, _ = queries.shape
        free = watch is None and queries.dtype != torch.float64
        in_blocks = self.span is not None and free and length > self.span.room
        if self.span is not None and in_blocks:
            queries, kv, mask, far = cut(queries, kv, mask, self.span)
        else:
            far = offsets(length, length, where=queries.device)  # (T, T)
            mask = mask if self.span is None else mask & self.span.sees(far)
        bias = None if self.relative is None else self.relative(queries, far)
        mixed = attend(
            self.score, queries, kv, mask, site=site, bias=bias, dropout=self._p, watch=watch
        )
        merged: Tensor = self.out(merge_heads(join(mixed, rows, length) if in_blocks else mixed))
        return merged

    def recall(
        self,
        queries: Tensor,
        cells: KeyValues,
        paths: Paths,
        *,
        site: Site,
        watch: Watch | None = None,
    ) -> Tensor:
        """What each hypothesis, with `queries` (B, H, K, ·), finds in the cells of its own past."""
        bias = None
        if self.relative is not None:
            bias = self.relative(queries, paths.places[None] - (paths.length - 1))  # (B, H, K, P)
        mixed = recall(
            self.score, queries, cells, paths, site=site, bias=bias, dropout=self._p, watch=watch
        )
        merged: Tensor = self.out(merge_heads(mixed))
        return merged
