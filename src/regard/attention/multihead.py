"""Attention in several subspaces at once."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend
from regard.attention.block_local import SlidingWindow, merge_blocks, split_blocks
from regard.attention.decode_attention import SourceMask, attend_step, use_attend_step
from regard.attention.kv_cache import Ancestry, KVCache, self_cached
from regard.attention.positions import RelativeKeys, apply_rotary, relative_positions
from regard.attention.scores import ScaledDotScore
from regard.attention.varlen import PackedLayout, VarlenArgs, attend_stacked
from regard.kernels.deferred_bias import DeferredBias, Linear, deferred_bias, linear
from regard.types import AttentionHook, Site


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, D) -> (B, H, T, K)"""
    return torch.unflatten(x, -1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, D)"""
    return x.transpose(1, 2).flatten(2)


class StackedLinear(Linear):
    """A linear layer of which some outputs can be asked for alone."""

    def forward(self, x: Tensor, outputs: tuple[int, int] | None = None) -> Tensor:
        """(..., D) -> (..., N), or of the N the `outputs` from the first number to the second."""
        if outputs is None:
            return super().forward(x)
        rows = slice(*outputs)
        bias = None if self.bias is None else self.bias[rows]
        chosen = linear if self.training else nn.functional.linear
        return chosen(x, self.weight[rows], bias)


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention in `heads` subspaces (Vaswani et al. 2017, section 3.2.2).

    The projections of queries, keys and values lie in one matrix, in this order, so that
    self-attention makes all three in one product and a memory's keys and values come in one.
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got {width=} and {heads=}")
        self.heads, self.dropout = heads, dropout
        self.score = ScaledDotScore()
        self.project = StackedLinear(width, 3 * width, bias=bias)
        self.out = Linear(width, width, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for each of the projections by itself, as if they lay apart; zero biases."""
        for matrix in (*self.project.weight.chunk(3), self.out.weight):
            nn.init.xavier_uniform_(matrix)
        for bias in (self.project.bias, self.out.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def project_all(self, x: Tensor) -> tuple[Tensor, KeyValues]:
        """Queries, and keys and values, of one sequence `x` (B, T, D), for self-attention."""
        queries, keys, values = self._unstack(self.project(x), 3)
        return queries, KeyValues(keys, values)

    def project_queries(self, x: Tensor) -> Tensor:
        """Queries (B, H, T, K) of `x` (B, T, D) alone."""
        return self._split(self._project_slice(x, 0, 1))

    def project_memory(self, memory: Tensor) -> KeyValues:
        """Keys and values of `memory` (B, S, D): made once, kept by the caller, used each step."""
        return KeyValues(*self._unstack(self._project_slice(memory, 1, 3), 2))

    def forward(
        self,
        queries: Tensor,
        kv: KeyValues,
        mask: Tensor,
        *,
        site: Site,
        hook: AttentionHook | None = None,
    ) -> Tensor:
        """What `queries` (B, H, T, K) find in `kv` where `mask` (B|1, 1, T|1, S) lets them look."""
        mixed = attend(self.score, queries, kv, mask, site=site, dropout=self._dropout_p, hook=hook)
        merged: Tensor = self.out(merge_heads(mixed))
        return merged

    def cross_packed(
        self, x: Tensor, memory: Tensor, to: PackedLayout, of: PackedLayout
    ) -> DeferredBias:
        """What packed sentences `x` (N, D) find in others, `memory` (M, D): (N, D)."""
        queries = torch.unflatten(
            self._project_slice(x, 0, 1), -1, (1, self.heads, -1)
        )  # (N, 1, H, K)
        keys_values = torch.unflatten(
            self._project_slice(memory, 1, 3), -1, (2, self.heads, -1)
        )  # (M, 2, H, K)
        return self._attend_packed_heads([queries, keys_values], to, of, causal=False)

    def _attend_packed_heads(
        self, parts: Sequence[Tensor], to: PackedLayout, of: PackedLayout, *, causal: bool
    ) -> DeferredBias:
        """What packed queries find, stacked with keys and values as `attend_stacked` has it."""
        scale = self.score.scale(parts[0].shape[-1])
        args = VarlenArgs(to, of, causal, scale, self._dropout_p)
        mixed = attend_stacked(parts, args)  # (N, H, K)
        return deferred_bias(self.out, mixed.flatten(1))

    def cross_step(
        self,
        queries: Tensor,
        kv: KeyValues,
        source_mask: SourceMask,
        *,
        site: Site,
        hook: AttentionHook | None,
    ) -> Tensor:
        """`forward` for the few queries of a step, of all in `sight`, by which `kv` was cleared."""
        if hook is not None or self._dropout_p or not use_attend_step(queries):
            return self.forward(queries, kv, source_mask.mask, site=site, hook=hook)
        mixed = attend_step(
            queries, kv, source_mask.bias, scale=self.score.scale(queries.shape[-1])
        )
        merged: Tensor = self.out(merge_heads(mixed))
        return merged

    @property
    def _dropout_p(self) -> float:
        return self.dropout if self.training else 0.0

    def _project_slice(self, x: Tensor, first: int, last: int) -> Tensor:
        """`x` through the projections number `first` up to `last` of query, key, value."""
        width = x.shape[-1]
        sliced: Tensor = self.project(x, (first * width, last * width))
        return sliced

    def _unstack(self, x: Tensor, count: int) -> Sequence[Tensor]:
        """`count` projections side by side (B, T, count D) -> (B, H, T, K) each."""
        stacked = torch.unflatten(x, -1, (count, self.heads, -1))  # (B, T, count, H, K)
        return stacked.permute(2, 0, 3, 1, 4).unbind(0)

    def _split(self, x: Tensor) -> Tensor:
        return split_heads(x, self.heads)


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
