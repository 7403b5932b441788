"""Multi-head attention, and how the layers of a Transformer use it.

`PaddedAttention`, `PackedAttention` and `CachedAttention` are the three kinds of forward pass: all
positions of padded sentences, training without padding, and a step of a search.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend, padding_mask
from regard.attention.block_local import SlidingWindow, merge_blocks, split_blocks
from regard.attention.decode_attention import SourceMask, attend_step, use_attend_step
from regard.attention.kv_cache import Ancestry, KVCache, self_cached
from regard.attention.positions import RelativeKeys, apply_rotary, relative_positions
from regard.attention.scores import ScaledDotScore
from regard.attention.varlen import PackedLayout, VarlenArgs, attend_stacked
from regard.kernels.dispatch import DeferredBias, deferred_bias
from regard.types import AttentionHook, Memory, Site


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, D) -> (B, H, T, K)"""
    return torch.unflatten(x, -1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, D)"""
    return x.transpose(1, 2).flatten(2)


class StackedLinear(nn.Linear):
    """A linear layer that can compute a slice of its outputs."""

    def forward(self, x: Tensor, outputs: tuple[int, int] | None = None) -> Tensor:
        """(..., D) -> (..., N), or only the outputs from the first number up to the second."""
        if outputs is None:
            return super().forward(x)
        rows = slice(*outputs)
        return F.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention in `heads` subspaces (Vaswani et al. 2017, section 3.2.2).

    The projections of queries, keys and values are one matrix, in this order, so that
    self-attention computes all three in one product, and cross-attention keys and values in one.
    """

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got {width=} and {heads=}")
        self.heads, self.dropout = heads, dropout
        self.score = ScaledDotScore()
        self.scale = self.score.scale(width // heads)
        self.project = StackedLinear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for each of the three projections separately; zero biases."""
        for matrix in (*self.project.weight.chunk(3), self.out.weight):
            nn.init.xavier_uniform_(matrix)
        for bias in (self.project.bias, self.out.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def project_all(self, x: Tensor) -> tuple[Tensor, KeyValues]:
        """Queries, keys and values of `x` (B, T, D), for self-attention."""
        queries, keys, values = self._unstack(self.project(x), 3)
        return queries, KeyValues(keys, values)

    def project_queries(self, x: Tensor) -> Tensor:
        """Queries (B, H, T, K) of `x` (B, T, D)."""
        return split_heads(self._project_slice(x, 0, 1), self.heads)

    def project_memory(self, memory: Tensor) -> KeyValues:
        """Keys and values of `memory` (B, S, D)."""
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
        """The output (B, T, D) of `queries` (B, H, T, K), for a `mask` (B|1, 1, T|1, S)."""
        mixed = attend(self.score, queries, kv, mask, site=site, dropout=self._dropout_p, hook=hook)
        return self._merge(mixed)

    def cross_packed(
        self, x: Tensor, memory: Tensor, layout: PackedLayout, memory_layout: PackedLayout
    ) -> DeferredBias:
        """The output (N, D) of packed sentences `x` (N, D) for packed `memory` (M, D)."""
        queries = torch.unflatten(self._project_slice(x, 0, 1), -1, (1, self.heads, -1))
        kv = torch.unflatten(self._project_slice(memory, 1, 3), -1, (2, self.heads, -1))
        # (N, 1, H, K) and (M, 2, H, K)
        return self._packed([queries, kv], VarlenArgs(layout, memory_layout, False, self.scale))

    def cross_step(
        self,
        x: Tensor,
        kv: KeyValues,
        source_mask: SourceMask,
        *,
        site: Site,
        hook: AttentionHook | None,
    ) -> Tensor:
        """The output of the hypotheses `x` (B, K, D) for `kv`, as `zero_masked` returned it."""
        queries = self.project_queries(x)
        if hook is not None or self._dropout_p or not use_attend_step(queries):
            return self.forward(queries, kv, source_mask.mask, site=site, hook=hook)
        return self._merge(attend_step(queries, kv, source_mask.bias, scale=self.scale))

    def _packed(self, parts: Sequence[Tensor], args: VarlenArgs) -> DeferredBias:
        """The output (N, D) of `attend_stacked`."""
        mixed = attend_stacked(parts, args._replace(dropout=self._dropout_p))  # (N, H, K)
        return deferred_bias(self.out, mixed.flatten(1))

    def _merge(self, mixed: Tensor) -> Tensor:
        """The output projection: (B, H, T, K) -> (B, T, D)."""
        merged: Tensor = self.out(merge_heads(mixed))
        return merged

    @property
    def _dropout_p(self) -> float:
        return self.dropout if self.training else 0.0

    def _project_slice(self, x: Tensor, first: int, last: int) -> Tensor:
        """Projections `first` up to `last` of (query, key, value), side by side."""
        width = x.shape[-1]
        sliced: Tensor = self.project(x, (first * width, last * width))
        return sliced

    def _unstack(self, x: Tensor, count: int) -> Sequence[Tensor]:
        """`count` projections side by side (B, T, count D) -> (B, H, T, K) each."""
        stacked = torch.unflatten(x, -1, (count, self.heads, -1))  # (B, T, count, H, K)
        return stacked.permute(2, 0, 3, 1, 4).unbind(0)


class SelfAttention(MultiHeadAttention):
    """Multi-head attention of a sequence to itself.

    `rotary` rotates queries and keys by their positions, `relative` adds a bias that depends on
    their distance, and `window` limits that distance.
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
        window: SlidingWindow | None = None,
    ) -> None:
        super().__init__(width, heads, dropout=dropout, bias=bias)
        self.rotary, self.relative, self.window = rotary, relative, window

    def project_all(self, x: Tensor, position: int | None = None) -> tuple[Tensor, KeyValues]:
        """Queries, keys and values of `x` (B, T, D).

        The T rows are positions 0 to T - 1, or hypotheses that are all at `position`.
        """
        queries, kv = super().project_all(x)
        if not self.rotary:
            return queries, kv
        first, last = (0, x.shape[1]) if position is None else (position, position + 1)
        positions = torch.arange(first, last, device=x.device)  # (T,) or (1,)
        keys = apply_rotary(kv.keys, positions)
        return apply_rotary(queries, positions), KeyValues(keys, kv.values)

    def forward(
        self,
        queries: Tensor,
        kv: KeyValues,
        mask: Tensor,
        *,
        site: Site,
        hook: AttentionHook | None = None,
    ) -> Tensor:
        """The output (B, T, D) of `queries` (B, H, T, K), for a `mask` (B|1, 1, T|1, T).

        With a window, `mask` is that of the keys: (B|1, 1, 1, T). Long sequences are then computed
        in blocks, except with a hook or in float64 (see `attend`).
        """
        if self.window is None and self.relative is None:
            return super().forward(queries, kv, mask, site=site, hook=hook)
        window, length = self.window, queries.shape[2]
        blocks_allowed = hook is None and queries.dtype != torch.float64
        if window is not None and blocks_allowed and length > window.num_keys:
            blocks = split_blocks(queries, kv, mask, window)
            mixed = merge_blocks(self._attend(*blocks, site=site), len(queries), length)
        else:
            distances = relative_positions(length, length, device=queries.device)  # (T, T)
            mask = mask if window is None else mask & window.allows(distances)
            mixed = self._attend(queries, kv, mask, distances, site=site, hook=hook)
        return self._merge(mixed)

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
        """`attend` with the bias of `distances` (T, S) from each query to each key."""
        bias = None if self.relative is None else self.relative(queries, distances)
        return attend(
            self.score, queries, kv, mask, site=site, bias=bias, dropout=self._dropout_p, hook=hook
        )

    def self_packed(self, x: Tensor, layout: PackedLayout, *, causal: bool) -> DeferredBias:
        """The output (N, D) of packed sentences `x` (N, D)."""
        stacked = torch.unflatten(self.project(x), -1, (3, self.heads, -1))  # (N, 3, H, K)
        parts = [stacked]
        if self.rotary:
            positions, (queries, keys, values) = layout.positions(), stacked.unbind(1)  # (N, H, K)
            rotated = (
                apply_rotary(y.transpose(0, 1), positions).transpose(0, 1) for y in (queries, keys)
            )
            parts = [y[:, None] for y in (*rotated, values)]  # (N, 1, H, K) each
        return self._packed(parts, VarlenArgs(layout, layout, causal, self.scale))

    def self_cached(
        self,
        queries: Tensor,
        cache: KVCache,
        ancestry: Ancestry,
        *,
        site: Site,
        hook: AttentionHook | None = None,
    ) -> Tensor:
        """The output (B, K, D) of the hypotheses `queries` (B, H, K, ·) for their own tokens."""
        bias, p = None, self._dropout_p
        if self.relative is not None:
            distances = ancestry.positions[None] - (ancestry.length - 1)  # (1, P)
            bias = self.relative(queries, distances)  # (B, H, K, P)
        mixed = self_cached(
            self.score, queries, cache, ancestry, site=site, bias=bias, dropout=p, hook=hook
        )
        return self._merge(mixed)


OwnT = TypeVar("OwnT", bound=nn.Module)


class LayerAttention(ABC, Generic[OwnT]):
    """The attention of all layers of a stack in one forward pass.

    `x` and the output are (B, T, D), or (N, D) of packed sentences.
    """

    part: Literal["encoder", "decoder"]
    real: Tensor | None
    """(B, T) where a position is not padding; None: everywhere."""
    step: int | None
    """The target position being decoded; None when all positions are computed at once."""

    @abstractmethod
    def self_attend(self, attention: OwnT, x: Tensor, layer: int) -> DeferredBias:
        """The self-attention of a layer."""

    @abstractmethod
    def cross_attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> DeferredBias:
        """The attention of a layer to the source."""


@dataclass
class PaddedAttention(LayerAttention[SelfAttention]):
    """All positions of padded sentences at once."""

    part: Literal["encoder", "decoder"]
    real: Tensor
    mask: Tensor  # (B|1, 1, T|1, T) of self-attention
    hook: AttentionHook | None
    memory: Memory | None = None
    step = None

    def self_attend(self, attention: SelfAttention, x: Tensor, layer: int) -> DeferredBias:
        queries, kv = attention.project_all(x)
        site = Site(self.part, layer)
        return DeferredBias(attention(queries, kv, self.mask, site=site, hook=self.hook))

    def cross_attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> DeferredBias:
        assert self.memory is not None
        queries, kv = attention.project_queries(x), attention.project_memory(self.memory.states)
        mask, site = padding_mask(self.memory.mask), Site("cross", layer)
        return DeferredBias(attention(queries, kv, mask, site=site, hook=self.hook))


@dataclass
class PackedAttention(LayerAttention[SelfAttention]):
    """Sentences without padding, in training."""

    part: Literal["encoder", "decoder"]
    layout: PackedLayout
    memory: tuple[Tensor, PackedLayout] | None = None  # (M, D)
    real = step = None

    def self_attend(self, attention: SelfAttention, x: Tensor, layer: int) -> DeferredBias:
        return attention.self_packed(x, self.layout, causal=self.part == "decoder")

    def cross_attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> DeferredBias:
        assert self.memory is not None
        memory, memory_layout = self.memory
        return attention.cross_packed(x, memory, self.layout, memory_layout)


@dataclass
class CachedAttention(LayerAttention[SelfAttention]):
    """The newest position of each hypothesis, in a step of a search."""

    step: int
    caches: list[KVCache]  # of each layer; `self_attend` appends the newest position
    ancestry: Ancestry
    source: Sequence[KeyValues]  # of each layer
    source_mask: SourceMask
    hook: AttentionHook | None
    part, real = "decoder", None

    def self_attend(self, attention: SelfAttention, x: Tensor, layer: int) -> DeferredBias:
        queries, kv = attention.project_all(x, self.step)
        cache = self.caches[layer].append(kv, self.ancestry.write_index)
        self.caches[layer], site = cache, Site("decoder", layer, self.step)
        y = attention.self_cached(queries, cache, self.ancestry, site=site, hook=self.hook)
        return DeferredBias(y)

    def cross_attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> DeferredBias:
        kv, site = self.source[layer], Site("cross", layer, self.step)
        y = attention.cross_step(x, kv, self.source_mask, site=site, hook=self.hook)
        return DeferredBias(y)
