"""Self-attention of language models: causal, with keys and values that groups of heads share."""

from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn

from regard.attention.attend import (
    KeyValues,
    attend,
    causal_mask,
    fused_attention,
    unmasked_attention,
)
from regard.attention.kv_cache import Ancestry, KVCache, attend_cached
from regard.attention.multihead import AttentionHeads, StackedLinear, merge_heads, split_heads
from regard.attention.positions import Rotary, apply_rotary
from regard.kernels.dispatch import is_traced
from regard.types import AttentionHook, Site


class GroupedSelfAttention(AttentionHeads):
    """`heads` heads of queries that share `kv_heads` of keys and values (Ainslie et al. 2023).

    One matrix projects to all of them. G is `kv_heads`; if it is H, this is multi-head attention.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        *,
        dropout: float,
        bias: bool,
        rotary: Rotary | None,
        head_width: int | None = None,
        query_factor: float = 1.0,
    ) -> None:
        """`rotary` are the frequencies of rotary encodings; None: there are none. `head_width` is
        K, by default D / H. Queries are multiplied by `query_factor`.
        """
        super().__init__(heads, dropout)
        self.kv_heads, self.rotary, self.query_factor = kv_heads, rotary, query_factor
        self.head_width = head_width or width // heads
        self.scale = self.score.scale(self.head_width)
        sizes = [size * self.head_width for size in (heads, kv_heads, kv_heads)]
        self.project = StackedLinear(width, sizes, bias=bias)
        self.out = nn.Linear(heads * self.head_width, width, bias=bias)

    def project_all(self, x: Tensor, positions: Tensor) -> tuple[Tensor, KeyValues]:
        """Queries (B, H, T, K), keys and values (B, G, T, K) of `x` (B, T, D).

        `positions` (T,), or (B, 1, T) if rows differ, are those of rotary encodings.
        """
        sizes = [self.heads, self.kv_heads, self.kv_heads]
        if x.is_cuda and torch.is_grad_enabled():
            # Three products: the gradient of a single one would be concatenated from three.
            ends = accumulate(self.project.sizes, initial=0)
            projected = (self.project(x, bounds) for bounds in pairwise(ends))
            queries, keys, values = map(split_heads, projected, sizes)
        else:
            stacked = split_heads(self.project(x), sum(sizes))
            queries, keys, values = torch.split(stacked, sizes, dim=1)
        if (rotary := self.rotary) is not None:
            queries, keys = (apply_rotary(x, positions, rotary) for x in (queries, keys))
        if self.query_factor != 1:
            queries = queries * self.query_factor
        return queries, KeyValues(keys, values)

    def attend_causally(
        self, queries: Tensor, kv: KeyValues, *, site: Site, hook: AttentionHook | None
    ) -> Tensor:
        """The heads (B, T, D) of `queries` (B, H, T, K) that see keys up to their own position."""
        if hook is None and queries.dtype != torch.float64 and not is_traced():
            p = self.dropout_p
            mixed = unmasked_attention(queries, kv, scale=self.scale, dropout=p, causal=True)
            return merge_heads(mixed)
        length = queries.shape[2]
        mask = causal_mask(length, length, device=queries.device)
        return self.attend_masked(queries, kv, mask, site=site, hook=hook)

    def attend_masked(
        self,
        queries: Tensor,
        kv: KeyValues,
        mask: Tensor,
        *,
        site: Site,
        hook: AttentionHook | None,
    ) -> Tensor:
        """The heads (B, T, D) of `queries` (B, H, T, K) for a `mask` (B|1, 1, T, S)."""
        p, kv = self.dropout_p, self._expand(kv)
        return merge_heads(attend(self.score, queries, kv, mask, site=site, dropout=p, hook=hook))

    def attend_step(
        self,
        queries: Tensor,
        cache: KVCache,
        ancestry: Ancestry,
        *,
        site: Site,
        hook: AttentionHook | None,
    ) -> Tensor:
        """The heads (B, K, D) of `queries` (B, H, K, D/H), one for each of K hypotheses."""
        if hook is not None or self.kv_heads == self.heads or is_traced():
            cache = cache._replace(kv=self._expand(cache.kv))
            mixed = attend_cached(self.score, queries, cache, ancestry, site=site, hook=hook)
            return merge_heads(mixed)
        # The heads of a group become further queries of its keys and values.
        width = queries.shape[2]
        grouped = torch.unflatten(queries, 1, (self.kv_heads, -1)).flatten(2, 3)  # (B, G, H/G K, ·)
        mask = ancestry.mask.repeat(1, 1, self.heads // self.kv_heads, 1)  # (B, 1, H/G K, P)
        mixed = fused_attention(grouped, cache.kv, mask, scale=self.scale)
        return merge_heads(torch.unflatten(mixed, 2, (-1, width)).flatten(1, 2))

    def _expand(self, kv: KeyValues) -> KeyValues:
        """Keys and values (B, G, S, K) for each head: (B, H, S, K)."""
        times = self.heads // self.kv_heads
        if times == 1:
            return kv
        return KeyValues(*(x.repeat_interleave(times, dim=1) for x in kv))
