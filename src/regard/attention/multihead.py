"""Multi-head attention, and how the layers of a Transformer use it.

`PaddedAttention`, `PackedAttention` and `CachedAttention` are the three kinds of forward pass: all
positions of padded sentences, training without padding, and a decoding step. `UnpaddedAttention`
is for windows of a text, all of one length.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend, padding_mask, unmasked_attention
from regard.attention.block_local import SlidingWindow, merge_blocks, split_blocks
from regard.attention.kv_cache import (
    Ancestry,
    KVCache,
    SourceMask,
    attend_cached,
    attend_step,
    use_attend_step,
)
from regard.attention.positions import RelativeKeys, apply_rotary, relative_positions
from regard.attention.score_functions import ScaledDotScore
from regard.attention.varlen import PackedLayout, VarlenArgs, attend_packed
from regard.kernels.dispatch import is_traced
from regard.types import AttentionHook, Memory, Site


def split_heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, D) -> (B, H, T, K)"""
    return torch.unflatten(x, -1, (heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, K) -> (B, T, D)"""
    return x.transpose(1, 2).flatten(2)


class StackedLinear(nn.Linear):
    """Linear layers of one input, their matrices one below the other, with `sizes` outputs; a slice
    of all outputs can be computed.
    """

    def __init__(self, inputs: int, sizes: Sequence[int], *, bias: bool = True) -> None:
        super().__init__(inputs, sum(sizes), bias=bias)
        self.sizes = tuple(sizes)

    def forward(self, x: Tensor, outputs: tuple[int, int] | None = None) -> Tensor:
        """(..., D) -> (..., N), or only the outputs from the first number up to the second."""
        if outputs is None:
            return super().forward(x)
        rows = slice(*outputs)
        return F.linear(x, self.weight[rows], None if self.bias is None else self.bias[rows])


class AttentionHeads(nn.Module):
    """Scaled dot-product attention in `heads` subspaces, returned side by side."""

    out: nn.Linear
    """Projects the heads; applied by the residual connection of a layer."""

    def __init__(self, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout, self.score = heads, dropout, ScaledDotScore()

    @property
    def dropout_p(self) -> float:
        """The probability of dropout, which is 0 outside of training."""
        return self.dropout if self.training else 0.0


class MultiHeadAttention(AttentionHeads):
    """Vaswani et al. 2017, section 3.2.2; one matrix projects to queries, keys and values."""

    def __init__(self, width: int, heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__(heads, dropout)
        if width % heads:
            raise ValueError(f"width must be a multiple of heads, got {width=} and {heads=}")
        self.scale = self.score.scale(width // heads)
        self.project = StackedLinear(width, [width] * 3, bias=bias)
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
        return split_heads(self.project_slice(x, 0, 1), self.heads)

    def project_memory(self, memory: Tensor) -> KeyValues:
        """Keys and values of `memory` (B, S, D)."""
        return KeyValues(*self._unstack(self.project_slice(memory, 1, 3), 2))

    def project_slice(self, x: Tensor, first: int, last: int) -> Tensor:
        """Projections `first` up to `last` of (query, key, value), side by side."""
        width = x.shape[-1]
        sliced: Tensor = self.project(x, (first * width, last * width))
        return sliced

    def _unstack(self, x: Tensor, count: int) -> Sequence[Tensor]:
        """`count` projections side by side (B, T, count D) -> (B, H, T, K) each."""
        stacked = torch.unflatten(x, -1, (count, self.heads, -1))  # (B, T, count, H, K)
        return stacked.permute(2, 0, 3, 1, 4).unbind(0)

    def forward(
        self,
        queries: Tensor,
        kv: KeyValues,
        mask: Tensor,
        *,
        site: Site,
        hook: AttentionHook | None = None,
    ) -> Tensor:
        """The heads (B, T, D) of `queries` (B, H, T, K), for a `mask` (B|1, 1, T|1, S)."""
        p = self.dropout_p
        return merge_heads(attend(self.score, queries, kv, mask, site=site, dropout=p, hook=hook))

    def attend_source(
        self,
        x: Tensor,
        kv: KeyValues,
        source_mask: SourceMask,
        *,
        site: Site,
        hook: AttentionHook | None,
    ) -> Tensor:
        """The heads of the hypotheses `x` (B, K, D) for `kv`, as `zero_masked` returned it."""
        queries = self.project_queries(x)
        if hook is not None or self.dropout_p or not use_attend_step(queries):
            return self.forward(queries, kv, source_mask.mask, site=site, hook=hook)
        return merge_heads(attend_step(queries, kv, source_mask.bias, scale=self.scale))


class SelfAttention(MultiHeadAttention):
    """Self-attention; `rotary` and `relative` encode positions, `window` limits their distance."""

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
        """Queries, keys, values of `x` (B, T, D), at positions 0 to T - 1 or all at `position`."""
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
        """The heads (B, T, D) of `queries` (B, H, T, K), for a `mask` (B|1, 1, T|1, T).

        With a window, `mask` is that of the keys: (B|1, 1, 1, T). Long sequences are then computed
        in blocks, except with a hook, in float64 (see `attend`) or while a graph is traced.
        """
        if self.window is None and self.relative is None:
            return super().forward(queries, kv, mask, site=site, hook=hook)
        window, rows, length = self.window, queries.shape[0], mask.shape[-1]
        blocks_allowed = hook is None and queries.dtype != torch.float64 and not is_traced()
        in_blocks = window is not None and blocks_allowed and length > window.num_keys
        if window is not None and in_blocks:
            queries, kv, mask, distances = split_blocks(queries, kv, mask, window)
        else:
            distances = relative_positions(length, length, device=queries.device)  # (T, T)
            mask = mask if window is None else mask & window.allows(distances)
        bias = None if self.relative is None else self.relative(queries, distances)
        p = self.dropout_p
        mixed = attend(self.score, queries, kv, mask, site=site, bias=bias, dropout=p, hook=hook)
        return merge_heads(merge_blocks(mixed, rows, length) if in_blocks else mixed)


OwnT = TypeVar("OwnT", bound=AttentionHeads)


class LayerAttention(ABC, Generic[OwnT]):
    """The attention of all layers of a stack in one forward pass.

    `x` is (B, T, D), or (N, D) of packed sentences; so are the heads that come back.
    """

    part: Literal["encoder", "decoder"]
    real: Tensor | None  # (B, T) where a position is not padding; None: everywhere
    step: int | None  # the target position being decoded; None: all positions at once

    @abstractmethod
    def self_attend(self, attention: OwnT, x: Tensor, layer: int) -> Tensor:
        """The self-attention of a layer."""

    @abstractmethod
    def cross_attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> Tensor:
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

    def self_attend(self, attention: SelfAttention, x: Tensor, layer: int) -> Tensor:
        (queries, kv), site = attention.project_all(x), Site(self.part, layer)
        heads: Tensor = attention(queries, kv, self.mask, site=site, hook=self.hook)
        return heads

    def cross_attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> Tensor:
        assert self.memory is not None
        queries, kv = attention.project_queries(x), attention.project_memory(self.memory.states)
        mask, site = padding_mask(self.memory.mask), Site("cross", layer)
        heads: Tensor = attention(queries, kv, mask, site=site, hook=self.hook)
        return heads


@dataclass
class PackedAttention(LayerAttention[SelfAttention]):
    """Sentences without padding, in training."""

    part: Literal["encoder", "decoder"]
    layout: PackedLayout
    memory: tuple[Tensor, PackedLayout] | None = None  # (M, D)
    real = step = None

    def self_attend(self, attention: SelfAttention, x: Tensor, layer: int) -> Tensor:
        stacked = torch.unflatten(attention.project(x), -1, (3, attention.heads, -1))
        parts = [stacked]  # (N, 3, H, K)
        if attention.rotary:
            positions, (*rotated, values) = self.layout.positions(), stacked.unbind(1)  # (N, H, K)
            rotated = [apply_rotary(y.transpose(0, 1), positions).transpose(0, 1) for y in rotated]
            parts = [y[:, None] for y in (*rotated, values)]  # (N, 1, H, K) each
        causal, scale, p = self.part == "decoder", attention.scale, attention.dropout_p
        args = VarlenArgs(self.layout, self.layout, causal, scale, p)
        return attend_packed(parts, args).flatten(1)  # (N, D)

    def cross_attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> Tensor:
        assert self.memory is not None
        memory, memory_layout = self.memory
        queries = torch.unflatten(attention.project_slice(x, 0, 1), -1, (1, attention.heads, -1))
        kv = torch.unflatten(attention.project_slice(memory, 1, 3), -1, (2, attention.heads, -1))
        # (N, 1, H, K) and (M, 2, H, K)
        args = VarlenArgs(self.layout, memory_layout, False, attention.scale, attention.dropout_p)
        return attend_packed([queries, kv], args).flatten(1)  # (N, D)


@dataclass
class UnpaddedAttention(PackedAttention):
    """Sequences of one length, without padding: on a GPU torch's kernels compute them."""

    def self_attend(self, attention: SelfAttention, x: Tensor, layer: int) -> Tensor:
        if not x.is_cuda:
            return super().self_attend(attention, x, layer)
        # Three products: the gradient of a single one would be concatenated from three.
        projected = (attention.project_slice(x, n, n + 1) for n in range(3))
        shape = self.layout.mask.shape
        queries, keys, values = (
            split_heads(torch.unflatten(y, 0, shape), attention.heads) for y in projected
        )  # (B, H, T, K)
        if attention.rotary:
            positions = torch.arange(shape[1], device=x.device)
            queries, keys = apply_rotary(queries, positions), apply_rotary(keys, positions)
        kv, p, causal = KeyValues(keys, values), attention.dropout_p, self.part == "decoder"
        mixed = unmasked_attention(queries, kv, scale=attention.scale, dropout=p, causal=causal)
        return merge_heads(mixed).flatten(0, 1)  # (N, D)


@dataclass
class CachedAttention(LayerAttention[SelfAttention]):
    """The newest position of each hypothesis, in a decoding step."""

    step: int
    caches: list[KVCache]  # of each layer; `self_attend` appends the newest position
    ancestry: Ancestry
    source: Sequence[KeyValues]  # of each layer
    source_mask: SourceMask
    hook: AttentionHook | None
    part, real = "decoder", None

    def self_attend(self, attention: SelfAttention, x: Tensor, layer: int) -> Tensor:
        queries, kv = attention.project_all(x, self.step)
        ancestry, bias = self.ancestry, None
        cache = self.caches[layer] = self.caches[layer].append(kv, ancestry.write_index)
        if attention.relative is not None:
            distances = ancestry.positions[None] - (ancestry.length - 1)  # (1, P)
            bias = attention.relative(queries, distances)  # (B, H, K, P)
        score, site, p = attention.score, Site("decoder", layer, self.step), attention.dropout_p
        mixed = attend_cached(
            score, queries, cache, ancestry, site=site, bias=bias, dropout=p, hook=self.hook
        )
        return merge_heads(mixed)

    def cross_attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> Tensor:
        kv, site = self.source[layer], Site("cross", layer, self.step)
        return attention.attend_source(x, kv, self.source_mask, site=site, hook=self.hook)
