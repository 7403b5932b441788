"""Attention of packed sentences: one row of N tokens, without padding between the sentences.

Only attention must know where a sentence begins and ends. It is computed by a kernel on a GPU, by
batched products for short sentences on a CPU, and otherwise in the padded form.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import KeyValues, attend, causal_mask, padding_mask
from regard.attention.score_functions import DotScore
from regard.kernels.dispatch import use_varlen_attention
from regard.kernels.dropout import dropout_mask
from regard.kernels.varlen_attention import PackedRows, attend_varlen
from regard.types import Site

DOT, NO_SITE = DotScore(), Site("decoder", 0)  # only a hook would read the site
CPU_BMM_MAX_LENGTH = 256
"""For longer sentences torch's fused kernel is as fast, and needs less memory."""
REGISTER_BYTES = 64
"""Rows of scores are padded to whole vector registers, since a softmax over 26 numbers is slower
than over 32."""


class PackedLayout(NamedTuple):
    """Where B sentences are in a row of N tokens."""

    cu_seqlens: Tensor  # (B + 1,) int32: sentence b is tokens cu_seqlens[b] up to cu_seqlens[b + 1]
    indices: Tensor  # (N,) of each token in the flattened padded batch (B * S)
    mask: Tensor  # (B, S) of the padded batch: where tokens are real

    @classmethod
    def of(cls, mask: Tensor, indices: Tensor) -> "PackedLayout":
        """From `mask` (B, S) and the `indices` (N,) where it is True; finding these is a sync."""
        cu_seqlens = F.pad(mask.sum(1).cumsum(0), (1, 0))  # (B + 1,)
        return cls(cu_seqlens.to(torch.int32), indices, mask)

    @classmethod
    def without_padding(cls, count: int, length: int, device: torch.device) -> "PackedLayout":
        """`count` sequences of one length."""
        offsets = torch.arange(0, (count + 1) * length, length, dtype=torch.int32, device=device)
        indices = torch.arange(count * length, device=device)
        return cls(offsets, indices, torch.ones(count, length, dtype=torch.bool, device=device))

    @property
    def max_seqlen(self) -> int:
        """S, an upper bound of the lengths, known without a GPU sync."""
        return self.mask.shape[1]

    @property
    def has_no_padding(self) -> bool:
        """Whether the padded batch has no padding, so that the packed and the padded form are the
        same.
        """
        return len(self.indices) == self.mask.numel()

    def positions(self) -> Tensor:
        """The position of each token in its sentence, from 0: (N,)."""
        return self.indices % self.max_seqlen

    def pack(self, x: Tensor) -> Tensor:
        """The real tokens: (B, S, ...) -> (N, ...)."""
        rows = x.flatten(0, 1)
        return rows if self.has_no_padding else rows.index_select(0, self.indices)

    def unpack(self, x: Tensor) -> Tensor:
        """The padded form, with zeros as padding: (N, ...) -> (B, S, ...)."""
        if not self.has_no_padding:
            zeros = x.new_zeros(self.mask.numel(), *x.shape[1:])
            x = zeros.index_copy(0, self.indices, x)  # (B * S, ...)
        return torch.unflatten(x, 0, self.mask.shape)


class VarlenArgs(NamedTuple):
    """Which queries attend to which keys, always of the same sentence, and how."""

    query_layout: PackedLayout
    key_layout: PackedLayout
    causal: bool  # not to later tokens; both layouts must be the same
    scale: float  # the factor of the dot products
    dropout: float = 0.0


def attend_packed(parts: Sequence[Tensor], args: VarlenArgs) -> Tensor:
    """The attention output of queries (N, H, K) for keys and values (M, H, K): (N, H, K).

    `parts` hold them as projections return them, (·, P, H, K): see `attend_varlen`.
    """
    if use_varlen_attention(parts[0]):
        rows = (PackedRows(x.cu_seqlens, x.indices, x.max_seqlen) for x in args[:2])
        causal, scale, dropout = args[2:]
        return attend_varlen(parts, *rows, causal=causal, scale=scale, dropout=dropout)
    queries, keys, values = (x for part in parts for x in part.unbind(1))  # (N, H, K), (M, H, K)
    compute = cpu_bmm_attention if use_cpu_bmm(queries, args) else padded_attention
    return compute(queries, keys, values, args)


def padded_attention(queries: Tensor, keys: Tensor, values: Tensor, args: VarlenArgs) -> Tensor:
    """`attend_packed` by `attend` in the padded form: on every device, in every precision."""
    query_layout, key_layout, causal, scale, dropout = args
    length = query_layout.max_seqlen
    if causal:  # padding is last, so masked as well
        mask = causal_mask(length, length, device=queries.device)
    else:
        mask = padding_mask(key_layout.mask)
    heads = query_layout.unpack(queries * scale).transpose(1, 2)  # (B, H, T, K)
    kv = KeyValues(*(key_layout.unpack(x).transpose(1, 2) for x in (keys, values)))  # (B, H, S, K)
    mixed = attend(DOT, heads, kv, mask, site=NO_SITE, dropout=dropout)  # (B, H, T, K)
    return query_layout.pack(mixed.transpose(1, 2))  # (N, H, K)


def use_cpu_bmm(queries: Tensor, args: VarlenArgs) -> bool:
    """Whether `cpu_bmm_attention` is the fastest way: for short sentences on a CPU."""
    return (
        queries.device.type == "cpu"
        and queries.dtype != torch.float64
        and max(args.query_layout.max_seqlen, args.key_layout.max_seqlen) <= CPU_BMM_MAX_LENGTH
        and not torch.compiler.is_compiling()
    )


def cpu_bmm_attention(queries: Tensor, keys: Tensor, values: Tensor, args: VarlenArgs) -> Tensor:
    """`attend_packed` by batched products: torch's backward pass is slower, up to five times."""
    register = REGISTER_BYTES // keys.dtype.itemsize
    num_keys = -(-args.key_layout.max_seqlen // register) * register
    query_index = PaddedIndex.of(args.query_layout, args.query_layout.max_seqlen)
    key_index = PaddedIndex.of(args.key_layout, num_keys)
    mixed: Tensor = _BmmAttention.apply(queries, keys, values, query_index, key_index, args)  # type: ignore[no-untyped-call]
    return mixed


class PaddedIndex(NamedTuple):
    """Indices between N packed tokens and a padded batch (B, S), which may be wider than needed."""

    token_indices: Tensor  # (B * S,) of the token at each padded position; N at padding
    flat_positions: Tensor  # (N,) the padded position of each token
    real: Tensor  # (B, S) whether a padded position has a token

    @classmethod
    def of(cls, layout: PackedLayout, size: int) -> "PaddedIndex":
        """For S = `size`."""
        columns, lengths = torch.arange(size), layout.cu_seqlens.diff()  # (S,), (B,)
        real = columns < lengths[:, None]  # (B, S)
        tokens = layout.cu_seqlens[:-1, None] + columns  # (B, S)
        tokens = tokens.masked_fill_(~real, len(layout.indices)).flatten()
        firsts = torch.arange(0, real.numel(), size).repeat_interleave(lengths)  # (N,)
        return cls(tokens, firsts + layout.positions(), real)

    def to_padded(self, x: Tensor, *, zeros: bool = False) -> Tensor:
        """(N, H, K) -> (B * H, S, K), with zeros or arbitrary tokens as padding."""
        if zeros:
            rows = torch.cat([x, x.new_zeros(1, *x.shape[1:])]).index_select(0, self.token_indices)
        else:
            rows = x.index_select(0, self.token_indices.clamp_max(len(x) - 1))  # (B * S, H, K)
        return torch.unflatten(rows, 0, self.real.shape).transpose(1, 2).flatten(0, 1)

    def to_packed(self, x: Tensor) -> Tensor:
        """(B * H, S, K) -> (N, H, K)"""
        padded = torch.unflatten(x, 0, (len(self.real), -1)).transpose(1, 2)  # (B, S, H, K)
        return padded.flatten(0, 1).index_select(0, self.flat_positions)


class _BmmAttention(torch.autograd.Function):
    """Queries (N, H, K), keys and values (M, H, K) -> (N, H, K)."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        query_index: PaddedIndex,
        key_index: PaddedIndex,
        args: VarlenArgs,
    ) -> Tensor:
        q = query_index.to_padded(queries)  # (B * H, T, K)
        k, v = key_index.to_padded(keys), key_index.to_padded(values)  # (B * H, S, K)
        if args.causal:  # padding is later than every token
            shape = (1, query_index.real.shape[1], key_index.real.shape[1])
            mask = torch.ones(shape, dtype=torch.bool).tril()  # (1, T, S)
        else:
            mask = key_index.real.repeat_interleave(queries.shape[1], 0)[:, None]  # (B * H, 1, S)
        lowest = torch.finfo(q.dtype).min / 2  # -inf would give NaN for an empty sentence
        bias = torch.zeros(mask.shape, dtype=q.dtype).masked_fill_(~mask, lowest)
        with torch.autocast("cpu", enabled=False):
            weights = torch.baddbmm(bias, q, k.mT, alpha=args.scale).softmax(-1)  # (B * H, T, S)
            p = args.dropout
            kept = dropout_mask(weights.shape, p, weights.dtype) if p else None
            mixed = torch.bmm(_drop_weights(weights, kept), v)  # (B * H, T, K)
        ctx.save_for_backward(q, k, v, weights, kept)
        ctx.indices, ctx.scale = (query_index, key_index), args.scale
        return query_index.to_packed(mixed)

    @staticmethod
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights, kept = ctx.saved_tensors
        (query_index, key_index), scale = ctx.indices, ctx.scale
        grad_mixed = query_index.to_padded(grads, zeros=True)  # (B * H, T, K)
        grad_values = torch.bmm(_drop_weights(weights, kept).mT, grad_mixed)  # (B * H, S, K)
        grad_weights = _drop_weights(torch.bmm(grad_mixed, v.mT), kept)  # (B * H, T, S)
        grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
        grad_queries = torch.baddbmm(q, grad_scores, k, beta=0, alpha=scale)  # (B * H, T, K)
        grad_keys = torch.baddbmm(k, grad_scores.mT, q, beta=0, alpha=scale)  # (B * H, S, K)
        packed = (key_index.to_packed(grad) for grad in (grad_keys, grad_values))
        return query_index.to_packed(grad_queries), *packed, None, None, None


def _drop_weights(x: Tensor, kept: Tensor | None) -> Tensor:
    return x if kept is None else x * kept
