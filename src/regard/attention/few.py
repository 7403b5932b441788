"""Attention of a few queries, as in a step of a search: on a CPU two plain products.

Torch's fused kernel is made for many queries and cuts them into blocks. With one to some dozen of
them what is left of it is its overhead: it takes about twice as long. On a GPU there is a kernel of
our own (`kernels/glance.py`).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import KeyValues
from regard.kernels.glance import glance, suits_glance

REGISTER = 16
"""Numbers in a row of scores from which torch makes their weights several at a time."""
MANY = 512
"""Scores from which it pays to fill up shorter rows."""


class Sight(NamedTuple):
    """What may be seen of each source, made once for all steps of a search."""

    mask: Tensor  # (B, 1, 1, S)
    hidden: Tensor  # (B, 1, 1, S) the same as what it adds to scores: 0, or as good as -inf

    @classmethod
    def of(cls, mask: Tensor, dtype: torch.dtype) -> "Sight":
        """Where `mask` (B, 1, 1, S) is True, for scores of this type."""
        nothing = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return cls(mask, nothing.masked_fill_(~mask, torch.finfo(dtype).min / 2))

    def rows(self, sentences: Tensor) -> "Sight":
        """Of some `sentences` (B',) alone."""
        return Sight(self.mask[sentences], self.hidden[sentences])

    def clear(self, kv: KeyValues) -> KeyValues:
        """`kv` (B, H, S, K) in one piece, where what is hidden is worth nothing.

        So one who sees nothing at all, and whose weights are then all alike, finds zeros.
        """
        values = kv.values.masked_fill(~self.mask.mT, 0.0)
        return KeyValues(kv.keys.contiguous(), values.contiguous())


def fits_few(queries: Tensor) -> bool:
    """Whether `few` is the fastest way for `queries`, those of a search."""
    plain = queries.dtype == torch.float32 and queries.device.type == "cpu"
    return plain or suits_glance(queries)


def few(queries: Tensor, kv: KeyValues, hidden: Tensor, *, factor: float) -> Tensor:
    """`attend` for scores that are `factor` times a dot product: (B, H, T, K) -> (B, H, T, K').

    `hidden`, which broadcasts to (B, H, T, S), is added to the scores and hides what it makes -inf
    or as good as that; no query may have all hidden, save if the values there are zero.
    """
    alike = hidden.shape[1] == 1 and kv.keys.shape == kv.values.shape
    if suits_glance(queries) and alike and not torch.is_grad_enabled():
        return glance(queries, *kv, hidden, factor=factor)
    scores = queries @ kv.keys.mT  # (B, H, T, S)
    return _weights(hidden, scores, factor) @ kv.values  # (B, H, T, K')


def _weights(hidden: Tensor, scores: Tensor, factor: float) -> Tensor:
    """The softmax of `factor` times some `scores` (B, H, T, S) and what hides them.

    Torch takes five times as long for a row that does not fill a register as for one that does.
    """
    size = scores.shape[-1]
    if size >= REGISTER or scores.numel() < MANY or scores.requires_grad:
        return torch.add(hidden, scores, alpha=factor).softmax(-1)
    filled = scores.new_full((*scores.shape[:-1], REGISTER), float("-inf"))  # (B, H, T, register)
    torch.add(hidden, scores, alpha=factor, out=filled[..., :size])
    return filled.softmax(-1)[..., :size]
