"""Attention of short sentences on a CPU: batched products and a softmax.

torch's fused kernel walks through each head of each sentence by itself. For short ones that is no
gain, and in half precision its backward pass takes five times as long as what stands here: all
heads of all sentences in one batched product, with rows of scores that fill whole registers (a
softmax over 26 numbers in bfloat16 takes four times as long as one over 32).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.kernels.dropout import dropout_mask

REGISTER_BYTES = 64
"""Bytes of a vector register: rows of scores are a multiple of as many."""


class PaddedIndex(NamedTuple):
    """Where N tokens of B sentences lie in a rectangle (B, S), which may be longer than needed."""

    token_indices: Tensor  # (B * S,) the token in each cell; N where there is none
    flat_positions: Tensor  # (N,) the cell of each token
    real: Tensor  # (B, S) whether there is one

    @classmethod
    def of(cls, cu_seqlens: Tensor, positions: Tensor, size: int) -> "PaddedIndex":
        """One of `size` S; sentences begin at `offsets` (B + 1,), their tokens have `positions`."""
        places, lengths = torch.arange(size), cu_seqlens.diff()  # (S,), (B,)
        real = places < lengths[:, None]  # (B, S)
        token_indices = (cu_seqlens[:-1, None] + places).masked_fill_(
            ~real, len(positions)
        )  # (B, S)
        firsts = torch.arange(0, real.numel(), size).repeat_interleave(lengths)  # (N,)
        return cls(token_indices.flatten(), firsts + positions, real)

    def to_padded(self, x: Tensor) -> Tensor:
        """(N, H, K) -> (B * H, S, K); what lies in cells without a token is of no meaning."""
        rows = x.index_select(0, self.token_indices.clamp_max(len(x) - 1))  # (B * S, H, K)
        return torch.unflatten(rows, 0, self.real.shape).transpose(1, 2).flatten(0, 1)

    def to_zero_padded(self, x: Tensor) -> Tensor:
        """(N, H, K) -> (B * H, S, K) with zeros in cells without a token."""
        rows = torch.cat([x, x.new_zeros(1, *x.shape[1:])]).index_select(0, self.token_indices)
        return torch.unflatten(rows, 0, self.real.shape).transpose(1, 2).flatten(0, 1)

    def to_packed(self, x: Tensor) -> Tensor:
        """(B * H, S, K) -> (N, H, K)"""
        apart = torch.unflatten(x, 0, (len(self.real), -1)).transpose(1, 2)  # (B, S, H, K)
        return apart.flatten(0, 1).index_select(0, self.flat_positions)


class BmmArgs(NamedTuple):
    """What queries see of keys, and how well."""

    to: PaddedIndex  # of the queries
    of: PaddedIndex  # of the keys
    causal: bool
    scale: float
    dropout: float

    def bias(self, heads: int, dtype: torch.dtype) -> Tensor:
        """What is added to the scores, so that nothing is seen where there is nothing to see."""
        real = self.of.real  # (B, S)
        if self.causal:  # what has no token is later than all that has one
            seen = torch.ones(1, self.to.real.shape[1], real.shape[1], dtype=torch.bool).tril()
        else:
            seen = real.repeat_interleave(heads, 0)[:, None]  # (B * H, 1, S)
        lowest = torch.finfo(dtype).min / 2  # and not -inf, which a sentence of no tokens makes NaN
        return torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, lowest)


class BmmAttention(torch.autograd.Function):
    """Queries (N, H, K), keys and values (M, H, K) -> (N, H, K)."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, view: BmmArgs) -> Tensor:
        to, of, _, scale, dropout = view
        q, k, v = to.to_padded(queries), of.to_padded(keys), of.to_padded(values)  # (B * H, T|S, K)
        bias = view.bias(queries.shape[1], q.dtype)  # (B * H | 1, T | 1, S)
        with torch.autocast("cpu", enabled=False):
            weights = torch.baddbmm(bias, q, k.mT, alpha=scale).softmax(-1)  # (B * H, T, S)
            mask = dropout_mask(weights.shape, dropout, weights.dtype) if dropout else None
            mixed = torch.bmm(_drop_weights(weights, mask), v)  # (B * H, T, K)
        ctx.save_for_backward(q, k, v, weights, mask)
        ctx.view = view
        return to.to_packed(mixed)

    @staticmethod
    def backward(ctx: Any, grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights, mask = ctx.saved_tensors
        to, of, _, scale, _ = ctx.view
        grad_mixed = to.to_zero_padded(grads)  # (B * H, T, K)
        grad_values = torch.bmm(_drop_weights(weights, mask).mT, grad_mixed)  # (B * H, S, K)
        grad_weights = _drop_weights(torch.bmm(grad_mixed, v.mT), mask)  # (B * H, T, S)
        grad_scores = torch._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
        grad_queries = torch.baddbmm(q, grad_scores, k, beta=0, alpha=scale)  # (B * H, T, K)
        grad_keys = torch.baddbmm(k, grad_scores.mT, q, beta=0, alpha=scale)  # (B * H, S, K)
        return to.to_packed(grad_queries), of.to_packed(grad_keys), of.to_packed(grad_values), None


def _drop_weights(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask


def pad_to_register(size: int, dtype: torch.dtype) -> int:
    """The length of a row of at least `size` scores that fills whole registers."""
    register_scores = REGISTER_BYTES // dtype.itemsize
    return -(-size // register_scores) * register_scores
