"""Attention of short sentences on a CPU: batched products and a softmax.

torch's fused kernel walks through each head of each sentence by itself. For short ones that is no
gain, and in half precision its backward pass takes five times as long as what stands here: all
heads of all sentences in one batched product, with rows of scores that fill whole registers (a
softmax over 26 numbers in bfloat16 takes four times as long as one over 32).
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.dropout import scaled_mask

REGISTER = 64
"""Bytes of a vector register: rows of scores are a multiple of as many."""


class Grid(NamedTuple):
    """Where N tokens of B sentences lie in a rectangle (B, S), which may be longer than needed."""

    tokens: Tensor  # (B * S,) the token in each cell; N where there is none
    cells: Tensor  # (N,) the cell of each token
    real: Tensor  # (B, S) whether there is one

    @classmethod
    def of(cls, offsets: Tensor, positions: Tensor, size: int) -> "Grid":
        """One of `size` S; sentences begin at `offsets` (B + 1,), their tokens have `positions`."""
        places, lengths = torch.arange(size), offsets.diff()  # (S,), (B,)
        real = places < lengths[:, None]  # (B, S)
        tokens = (offsets[:-1, None] + places).masked_fill_(~real, len(positions))  # (B, S)
        firsts = torch.arange(0, real.numel(), size).repeat_interleave(lengths)  # (N,)
        return cls(tokens.flatten(), firsts + positions, real)

    def spread(self, x: Tensor) -> Tensor:
        """(N, H, K) -> (B * H, S, K); what lies in cells without a token is of no meaning."""
        rows = x.index_select(0, self.tokens.clamp_max(len(x) - 1))  # (B * S, H, K)
        return torch.unflatten(rows, 0, self.real.shape).transpose(1, 2).flatten(0, 1)

    def spread_zeros(self, x: Tensor) -> Tensor:
        """(N, H, K) -> (B * H, S, K) with zeros in cells without a token."""
        rows = torch.cat([x, x.new_zeros(1, *x.shape[1:])]).index_select(0, self.tokens)
        return torch.unflatten(rows, 0, self.real.shape).transpose(1, 2).flatten(0, 1)

    def gather(self, x: Tensor) -> Tensor:
        """(B * H, S, K) -> (N, H, K)"""
        apart = torch.unflatten(x, 0, (len(self.real), -1)).transpose(1, 2)  # (B, S, H, K)
        return apart.flatten(0, 1).index_select(0, self.cells)


class View(NamedTuple):
    """What queries see of keys, and how well."""

    to: Grid  # of the queries
    of: Grid  # of the keys
    causal: bool
    factor: float
    dropout: float

    def hidden(self, heads: int, dtype: torch.dtype) -> Tensor:
        """What is added to the scores, so that nothing is seen where there is nothing to see."""
        real = self.of.real  # (B, S)
        if self.causal:  # what has no token is later than all that has one
            seen = torch.ones(1, self.to.real.shape[1], real.shape[1], dtype=torch.bool).tril()
        else:
            seen = real.repeat_interleave(heads, 0)[:, None]  # (B * H, 1, S)
        lowest = torch.finfo(dtype).min / 2  # and not -inf, which a sentence of no tokens makes NaN
        return torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, lowest)


class Products(torch.autograd.Function):
    """Queries (N, H, K), keys and values (M, H, K) -> (N, H, K)."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, values: Tensor, view: View) -> Tensor:
        to, of, _, factor, dropout = view
        q, k, v = to.spread(queries), of.spread(keys), of.spread(values)  # (B * H, T|S, K)
        hidden = view.hidden(queries.shape[1], q.dtype)  # (B * H | 1, T | 1, S)
        with torch.autocast("cpu", enabled=False):
            weights = torch.baddbmm(hidden, q, k.mT, alpha=factor).softmax(-1)  # (B * H, T, S)
            mask = scaled_mask(weights.shape, dropout, weights.dtype) if dropout else None
            mixed = torch.bmm(_thinned(weights, mask), v)  # (B * H, T, K)
        ctx.save_for_backward(q, k, v, weights, mask)
        ctx.view = view
        return to.gather(mixed)

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, weights, mask = ctx.saved_tensors
        to, of, _, factor, _ = ctx.view
        g = to.spread_zeros(slopes)  # (B * H, T, K)
        of_values = torch.bmm(_thinned(weights, mask).mT, g)  # (B * H, S, K)
        of_weights = _thinned(torch.bmm(g, v.mT), mask)  # (B * H, T, S)
        of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
        of_queries = torch.baddbmm(q, of_scores, k, beta=0, alpha=factor)  # (B * H, T, K)
        of_keys = torch.baddbmm(k, of_scores.mT, q, beta=0, alpha=factor)  # (B * H, S, K)
        return to.gather(of_queries), of.gather(of_keys), of.gather(of_values), None


def _thinned(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask


def roomy(size: int, dtype: torch.dtype) -> int:
    """The length of a row of at least `size` scores that fills whole registers."""
    room = REGISTER // dtype.itemsize
    return -(-size // room) * room
