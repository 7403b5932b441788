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

from regard.attention.attend import KeyValues, attend
from regard.attention.masks import causal_mask, padding_mask
from regard.attention.products import Grid, Products, View, roomy
from regard.attention.scores import DotScore
from regard.kernels.attention import WIDTHS, Rows, apart, attend_short
from regard.kernels.available import suits
from regard.types import Site

DOT = DotScore()
UNSEEN = Site("decoder", 0)
"""Packed sentences are for when nobody watches."""
LONGEST = 256
"""Beyond so many tokens torch's kernel is as quick as whole tables of scores, and needs none."""


class Layout(NamedTuple):
    """Where B sentences lie in a row of N tokens."""

    offsets: Tensor  # (B + 1,) int32: sentence b is tokens offsets[b] up to offsets[b + 1]
    places: Tensor  # (N,) where each token lies in the flattened rectangle (B * S)
    mask: Tensor  # (B, S) where the tokens of the rectangle are real

    @classmethod
    def of(cls, mask: Tensor, places: Tensor) -> "Layout":
        """That of a rectangle which is real where `mask` (B, S) is True, at `places` (N,).

        The places say no more than the mask, but to find them asks the device: whoever made the
        mask on the host knows them.
        """
        offsets = F.pad(mask.sum(1).cumsum(0), (1, 0))  # (B + 1,)
        return cls(offsets.to(torch.int32), places, mask)

    @property
    def longest(self) -> int:
        """S: no sentence has more tokens. Known without asking a device, as are N and B."""
        return self.mask.shape[1]

    @property
    def full(self) -> bool:
        """Whether there is no padding at all: the row is then the rectangle itself."""
        return len(self.places) == self.mask.numel()

    @property
    def rows(self) -> Rows:
        """As kernels ask for it."""
        return Rows(self.offsets, self.places, self.longest)

    def positions(self) -> Tensor:
        """Where each token stands in its sentence, from 0: (N,)."""
        return self.places % self.longest

    def pack(self, x: Tensor) -> Tensor:
        """The real ones of a rectangle: (B, S, ...) -> (N, ...)."""
        rows = x.flatten(0, 1)
        return rows if self.full else rows.index_select(0, self.places)

    def unpack(self, x: Tensor) -> Tensor:
        """The rectangle, zeros in its padding: (N, ...) -> (B, S, ...)."""
        if not self.full:
            blank = x.new_zeros(self.mask.numel(), *x.shape[1:])
            x = blank.index_copy(0, self.places, x)  # (B * S, ...)
        return torch.unflatten(x, 0, self.mask.shape)


class Pairing(NamedTuple):
    """Whose queries look at whose keys, and how.

    A query sees its own sentence alone; if `causal`, where queries and keys are of one layout,
    nothing later than it. Scores are `factor` times the dot product of a query and a key.
    """

    of_queries: Layout
    of_keys: Layout
    causal: bool
    factor: float
    dropout: float = 0.0


def attend_stacked(parts: Sequence[Tensor], pairing: Pairing) -> Tensor:
    """`attend_packed` of what projections made, left as they made it: (N, H, K).

    `parts` are (·, P, H, K), and hold queries, keys and values in this order: together,
    (N, 3, H, K), or apart, as (N, 1, H, K) and (M, 2, H, K). A kernel that reads them as they are,
    and writes slopes so, saves a copy of each.
    """
    width = parts[0].shape[-1]
    if suits("attention", parts[0]) and WIDTHS[0] <= width <= WIDTHS[1]:
        of_queries, of_keys, causal, factor, dropout = pairing
        rows = of_queries.rows, of_keys.rows
        return attend_short(parts, *rows, causal=causal, factor=factor, dropout=dropout)
    return attend_packed(*apart(parts), pairing)


def attend_packed(queries: Tensor, keys: Tensor, values: Tensor, pairing: Pairing) -> Tensor:
    """The values (M, H, K), mixed for each query (N, H, K) by what it likes: (N, H, K)."""
    way = by_products if suits_products(queries, pairing) else by_padding
    return way(queries, keys, values, pairing)


def suits_products(queries: Tensor, pairing: Pairing) -> bool:
    """Whether `by_products` is the quickest way: for short sentences on a CPU."""
    return (
        queries.device.type == "cpu"
        and queries.dtype != torch.float64
        and max(pairing.of_queries.longest, pairing.of_keys.longest) <= LONGEST
        and not torch.compiler.is_compiling()
    )


def by_padding(queries: Tensor, keys: Tensor, values: Tensor, pairing: Pairing) -> Tensor:
    """`attend_packed` in a rectangle, by the one `attend`: on every device, in every precision."""
    of_queries, of_keys, causal, factor, dropout = pairing
    length = of_queries.longest
    mask = (
        causal_mask(length, length, where=queries.device)  # hides the padding too, the last
        if causal
        else padding_mask(of_keys.mask)
    )
    heads = of_queries.unpack(queries * factor).transpose(1, 2)  # (B, H, T, K)
    kv = KeyValues(*(of_keys.unpack(x).transpose(1, 2) for x in (keys, values)))  # (B, H, S, K)
    mixed = attend(DOT, heads, kv, mask, site=UNSEEN, dropout=dropout)  # (B, H, T, K)
    return of_queries.pack(mixed.transpose(1, 2))  # (N, H, K)


def by_products(queries: Tensor, keys: Tensor, values: Tensor, pairing: Pairing) -> Tensor:
    """`attend_packed` by batched products (see `products`)."""
    of_queries, of_keys, causal, factor, dropout = pairing
    to = Grid.of(of_queries.offsets, of_queries.positions(), of_queries.longest)
    of = Grid.of(of_keys.offsets, of_keys.positions(), roomy(of_keys.longest, keys.dtype))
    view = View(to, of, causal=causal, factor=factor, dropout=dropout)
    mixed: Tensor = Products.apply(queries, keys, values, view)  # type: ignore[no-untyped-call]
    return mixed
