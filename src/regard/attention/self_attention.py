"""Attention of a sequence to itself: where distances count and sight may be short."""

import torch
from torch import Tensor

from regard.attention.attend import KeyValues, attend
from regard.attention.blocks import Span, cut, join
from regard.attention.cache import Cells, Paths, recall
from regard.attention.multihead import MultiHeadAttention, merge_heads
from regard.attention.packed import Layout
from regard.attention.relative import RelativeKeys, offsets
from regard.attention.rotary import rotate
from regard.kernels.linear import Bare
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

    def project_all(self, x: Tensor, at: int | None = None) -> tuple[Tensor, KeyValues]:
        """Queries, and keys and values, of `x` (B, T, D).

        Its rows are the newest of T hypotheses, which all stand `at` one position; if that is not
        given, they are those of a sequence, from position 0 on.
        """
        queries, kv = super().project_all(x)
        if not self.rotary:
            return queries, kv
        first, last = (0, x.shape[1]) if at is None else (at, at + 1)
        positions = torch.arange(first, last, device=x.device)  # (T,) or (1,)
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
        span, length = self.span, queries.shape[2]
        free = watch is None and queries.dtype != torch.float64
        if span is not None and free and length > span.room:
            blocks = cut(queries, kv, mask, span)
            mixed = join(self._attend(*blocks, site=site), len(queries), length)
        else:
            far = offsets(length, length, where=queries.device)  # (T, T)
            seen = mask if span is None else mask & span.sees(far)
            mixed = self._attend(queries, kv, seen, far, site=site, watch=watch)
        merged: Tensor = self.out(merge_heads(mixed))
        return merged

    def _attend(
        self,
        queries: Tensor,
        kv: KeyValues,
        mask: Tensor,
        far: Tensor,
        *,
        site: Site,
        watch: Watch | None = None,
    ) -> Tensor:
        """`attend`, where each key stands `far` (T, S) behind each query."""
        bias = None if self.relative is None else self.relative(queries, far)
        return attend(
            self.score, queries, kv, mask, site=site, bias=bias, dropout=self._p, watch=watch
        )

    def reflect(self, x: Tensor, at: Layout, *, causal: bool) -> Bare:
        """What packed sentences `x` (N, D) find in themselves, where they see all: (N, D)."""
        stacked = torch.unflatten(self.project(x), -1, (3, self.heads, -1))  # (N, 3, H, K)
        if not self.rotary:
            return self._find([stacked], at, at, causal=causal)
        places, (queries, keys, values) = at.positions(), stacked.unbind(1)  # (N,), (N, H, K) each
        turned = (rotate(y.transpose(0, 1), places).transpose(0, 1) for y in (queries, keys))
        return self._find([y[:, None] for y in (*turned, values)], at, at, causal=causal)

    def recall(
        self,
        queries: Tensor,
        cells: Cells,
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
