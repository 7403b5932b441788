"""Attention of a sequence to itself: where distances count and sight may be short."""

import torch
from torch import Tensor

from regard.attention.attend import KeyValues, attend
from regard.attention.block_local import SlidingWindow, merge_blocks, split_blocks
from regard.attention.kv_cache import Ancestry, KVCache, self_cached
from regard.attention.multihead import MultiHeadAttention, merge_heads
from regard.attention.relative import RelativeKeys, relative_positions
from regard.attention.rotary import apply_rotary
from regard.attention.varlen import PackedLayout
from regard.kernels.deferred_bias import DeferredBias
from regard.types import AttentionHook, Site


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
        span: SlidingWindow | None = None,
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
        return apply_rotary(queries, positions), KeyValues(
            apply_rotary(kv.keys, positions), kv.values
        )

    def forward(
        self,
        queries: Tensor,
        kv: KeyValues,
        mask: Tensor,
        *,
        site: Site,
        hook: AttentionHook | None = None,
    ) -> Tensor:
        """What `queries` (B, H, T, K) find in `kv` where `mask` (B|1, 1, T|1, T) lets them look.

        Where a span does too, in blocks if that is less work; `mask` then tells of keys alone. As
        with fused kernels, a watch and float64 have the plain formula.
        """
        if self.span is None and self.relative is None:
            return super().forward(queries, kv, mask, site=site, hook=hook)
        span, length = self.span, queries.shape[2]
        blocks_allowed = hook is None and queries.dtype != torch.float64
        if span is not None and blocks_allowed and length > span.room:
            blocks = split_blocks(queries, kv, mask, span)
            mixed = merge_blocks(self._attend(*blocks, site=site), len(queries), length)
        else:
            distances = relative_positions(length, length, where=queries.device)  # (T, T)
            seen = mask if span is None else mask & span.allows(distances)
            mixed = self._attend(queries, kv, seen, distances, site=site, hook=hook)
        merged: Tensor = self.out(merge_heads(mixed))
        return merged

    def _attend(
        self,
        queries: Tensor,
        kv: KeyValues,
        mask: Tensor,
        distances: Tensor,
        *,
        site: Site,
        hook: AttentionHook | None = None,
    ) -> Tensor:
        """`attend`, where each key stands `far` (T, S) behind each query."""
        bias = None if self.relative is None else self.relative(queries, distances)
        return attend(
            self.score, queries, kv, mask, site=site, bias=bias, dropout=self._dropout_p, hook=hook
        )

    def self_packed(self, x: Tensor, at: PackedLayout, *, causal: bool) -> DeferredBias:
        """What packed sentences `x` (N, D) find in themselves, where they see all: (N, D)."""
        stacked = torch.unflatten(self.project(x), -1, (3, self.heads, -1))  # (N, 3, H, K)
        if not self.rotary:
            return self._attend_packed_heads([stacked], at, at, causal=causal)
        positions, (queries, keys, values) = (
            at.positions(),
            stacked.unbind(1),
        )  # (N,), (N, H, K) each
        rotated = (
            apply_rotary(y.transpose(0, 1), positions).transpose(0, 1) for y in (queries, keys)
        )
        return self._attend_packed_heads(
            [y[:, None] for y in (*rotated, values)], at, at, causal=causal
        )

    def self_cached(
        self,
        queries: Tensor,
        cache: KVCache,
        ancestry: Ancestry,
        *,
        site: Site,
        hook: AttentionHook | None = None,
    ) -> Tensor:
        """What each hypothesis, with `queries` (B, H, K, ·), finds in the cells of its own past."""
        bias = None
        if self.relative is not None:
            bias = self.relative(
                queries, ancestry.positions[None] - (ancestry.length - 1)
            )  # (B, H, K, P)
        mixed = self_cached(
            self.score,
            queries,
            cache,
            ancestry,
            site=site,
            bias=bias,
            dropout=self._dropout_p,
            hook=hook,
        )
        merged: Tensor = self.out(merge_heads(mixed))
        return merged
