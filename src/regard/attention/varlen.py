"""Attention of sentences that lie end to end in one row, with no padding between them.

All that a Transformer does to each token by itself (linear layers, norms, dropout) it can do to N
real tokens as well as to a rectangle (B, S) of which a part is padding. Attention alone must know
where a sentence begins and ends.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.attend import KeyValues, attend, causal_mask, padding_mask
from regard.attention.cpu_bmm import BmmArgs, BmmAttention, PaddedIndex, pad_to_register
from regard.attention.scores import DotScore
from regard.kernels.dispatch import use_kernel
from regard.kernels.varlen_attention import HEAD_WIDTHS, PackedRows, attend_varlen, split_qkv
from regard.types import Site

DOT = DotScore()
NO_SITE = Site("decoder", 0)
"""Packed sentences are for when nobody watches."""
CPU_BMM_MAX_LENGTH = 256
"""Beyond so many tokens torch's kernel is as quick as whole tables of scores, and needs none."""


class PackedLayout(NamedTuple):
    """Where B sentences lie in a row of N tokens."""

    cu_seqlens: Tensor  # (B + 1,) int32: sentence b is tokens offsets[b] up to offsets[b + 1]
    indices: Tensor  # (N,) where each token lies in the flattened rectangle (B * S)
    mask: Tensor  # (B, S) where the tokens of the rectangle are real

    @classmethod
    def of(cls, mask: Tensor, indices: Tensor) -> "PackedLayout":
        """That of a rectangle which is real where `mask` (B, S) is True, at `places` (N,).

        The places say no more than the mask, but to find them asks the device: whoever made the
        mask on the host knows them.
        """
        cu_seqlens = F.pad(mask.sum(1).cumsum(0), (1, 0))  # (B + 1,)
        return cls(cu_seqlens.to(torch.int32), indices, mask)

    @property
    def max_seqlen(self) -> int:
        """S: no sentence has more tokens. Known without asking a device, as are N and B."""
        return self.mask.shape[1]

    @property
    def has_no_padding(self) -> bool:
        """Whether there is no padding at all: the row is then the rectangle itself."""
        return len(self.indices) == self.mask.numel()

    @property
    def rows(self) -> PackedRows:
        """As kernels ask for it."""
        return PackedRows(self.cu_seqlens, self.indices, self.max_seqlen)

    def positions(self) -> Tensor:
        """Where each token stands in its sentence, from 0: (N,)."""
        return self.indices % self.max_seqlen

    def pack(self, x: Tensor) -> Tensor:
        """The real ones of a rectangle: (B, S, ...) -> (N, ...)."""
        rows = x.flatten(0, 1)
        return rows if self.has_no_padding else rows.index_select(0, self.indices)

    def unpack(self, x: Tensor) -> Tensor:
        """The rectangle, zeros in its padding: (N, ...) -> (B, S, ...)."""
        if not self.has_no_padding:
            blank = x.new_zeros(self.mask.numel(), *x.shape[1:])
            x = blank.index_copy(0, self.indices, x)  # (B * S, ...)
        return torch.unflatten(x, 0, self.mask.shape)


class VarlenArgs(NamedTuple):
    """Whose queries look at whose keys, and how.

    A query sees its own sentence alone; if `causal`, where queries and keys are of one layout,
    nothing later than it. Scores are `factor` times the dot product of a query and a key.
    """

    query_layout: PackedLayout
    key_layout: PackedLayout
    causal: bool
    scale: float
    dropout: float = 0.0


def attend_stacked(parts: Sequence[Tensor], args: VarlenArgs) -> Tensor:
    """`attend_packed` of what projections made, left as they made it: (N, H, K).

    `parts` are (·, P, H, K), and hold queries, keys and values in this order: together,
    (N, 3, H, K), or apart, as (N, 1, H, K) and (M, 2, H, K). A kernel that reads them as they are,
    and writes slopes so, saves a copy of each.
    """
    width = parts[0].shape[-1]
    if use_kernel("varlen_attention", parts[0]) and HEAD_WIDTHS[0] <= width <= HEAD_WIDTHS[1]:
        query_layout, key_layout, causal, scale, dropout = args
        rows = query_layout.rows, key_layout.rows
        return attend_varlen(parts, *rows, causal=causal, scale=scale, dropout=dropout)
    return attend_packed(*split_qkv(parts), args)


def attend_packed(queries: Tensor, keys: Tensor, values: Tensor, args: VarlenArgs) -> Tensor:
    """The values (M, H, K), mixed for each query (N, H, K) by what it likes: (N, H, K)."""
    compute = cpu_bmm_attention if use_cpu_bmm(queries, args) else padded_attention
    return compute(queries, keys, values, args)


def use_cpu_bmm(queries: Tensor, args: VarlenArgs) -> bool:
    """Whether `by_products` is the quickest way: for short sentences on a CPU."""
    return (
        queries.device.type == "cpu"
        and queries.dtype != torch.float64
        and max(args.query_layout.max_seqlen, args.key_layout.max_seqlen) <= CPU_BMM_MAX_LENGTH
        and not torch.compiler.is_compiling()
    )


def padded_attention(queries: Tensor, keys: Tensor, values: Tensor, args: VarlenArgs) -> Tensor:
    """`attend_packed` in a rectangle, by the one `attend`: on every device, in every precision."""
    query_layout, key_layout, causal, scale, dropout = args
    length = query_layout.max_seqlen
    mask = (
        causal_mask(length, length, where=queries.device)  # hides the padding too, the last
        if causal
        else padding_mask(key_layout.mask)
    )
    heads = query_layout.unpack(queries * scale).transpose(1, 2)  # (B, H, T, K)
    kv = KeyValues(*(key_layout.unpack(x).transpose(1, 2) for x in (keys, values)))  # (B, H, S, K)
    mixed = attend(DOT, heads, kv, mask, site=NO_SITE, dropout=dropout)  # (B, H, T, K)
    return query_layout.pack(mixed.transpose(1, 2))  # (N, H, K)


def cpu_bmm_attention(queries: Tensor, keys: Tensor, values: Tensor, args: VarlenArgs) -> Tensor:
    """`attend_packed` by batched products (see `products`)."""
    query_layout, key_layout, causal, scale, dropout = args
    to = PaddedIndex.of(query_layout.cu_seqlens, query_layout.positions(), query_layout.max_seqlen)
    of = PaddedIndex.of(
        key_layout.cu_seqlens,
        key_layout.positions(),
        pad_to_register(key_layout.max_seqlen, keys.dtype),
    )
    view = BmmArgs(to, of, causal=causal, scale=scale, dropout=dropout)
    mixed: Tensor = BmmAttention.apply(queries, keys, values, view)  # type: ignore[no-untyped-call]
    return mixed
