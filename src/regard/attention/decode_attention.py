"""Attention of a few queries, as in a step of a search: on a CPU two plain products.

Torch's fused kernel is made for many queries and cuts them into blocks. With one to some dozen of
them what is left of it is its overhead: it takes about twice as long. On a GPU there is a kernel of
our own (`kernels/decode_attention.py`).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import KeyValues
from regard.kernels.decode_attention import decode_attention, use_decode_attention

MIN_SOFTMAX_WIDTH = 16
"""Numbers in a row of scores from which torch makes their weights several at a time."""
PAD_MIN_SCORES = 512
"""Scores from which it pays to fill up shorter rows."""


class SourceMask(NamedTuple):
    """What may be seen of each source, made once for all steps of a search."""

    mask: Tensor  # (B, 1, 1, S)
    bias: Tensor  # (B, 1, 1, S) the same as what it adds to scores: 0, or as good as -inf

    @classmethod
    def of(cls, mask: Tensor, dtype: torch.dtype) -> "SourceMask":
        """Where `mask` (B, 1, 1, S) is True, for scores of this type."""
        zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return cls(mask, zeros.masked_fill_(~mask, torch.finfo(dtype).min / 2))

    def select_sentences(self, sentences: Tensor) -> "SourceMask":
        """Of some `sentences` (B',) alone."""
        return SourceMask(self.mask[sentences], self.bias[sentences])

    def clear(self, kv: KeyValues) -> KeyValues:
        """`kv` (B, H, S, K) in one piece, where what is hidden is worth nothing.

        So one who sees nothing at all, and whose weights are then all alike, finds zeros.
        """
        values = kv.values.masked_fill(~self.mask.mT, 0.0)
        return KeyValues(kv.keys.contiguous(), values.contiguous())


def use_attend_step(queries: Tensor) -> bool:
    """Whether `few` is the fastest way for `queries`, those of a search."""
    plain = queries.dtype == torch.float32 and queries.device.type == "cpu"
    return plain or use_decode_attention(queries)


def attend_step(queries: Tensor, kv: KeyValues, bias: Tensor, *, scale: float) -> Tensor:
    """`attend` for scores that are `factor` times a dot product: (B, H, T, K) -> (B, H, T, K').

    `hidden`, which broadcasts to (B, H, T, S), is added to the scores and hides what it makes -inf
    or as good as that; no query may have all hidden, save if the values there are zero.
    """
    supported = bias.shape[1] == 1 and kv.keys.shape == kv.values.shape
    if use_decode_attention(queries) and supported and not torch.is_grad_enabled():
        return decode_attention(queries, *kv, bias, scale=scale)
    scores = queries @ kv.keys.mT  # (B, H, T, S)
    return _padded_softmax(bias, scores, scale) @ kv.values  # (B, H, T, K')


def _padded_softmax(bias: Tensor, scores: Tensor, scale: float) -> Tensor:
    """The softmax of `factor` times some `scores` (B, H, T, S) and what hides them.

    Torch takes five times as long for a row that does not fill a register as for one that does.
    """
    size = scores.shape[-1]
    if size >= MIN_SOFTMAX_WIDTH or scores.numel() < PAD_MIN_SCORES or scores.requires_grad:
        return torch.add(bias, scores, alpha=scale).softmax(-1)
    padded = scores.new_full(
        (*scores.shape[:-1], MIN_SOFTMAX_WIDTH), float("-inf")
    )  # (B, H, T, register)
    torch.add(bias, scores, alpha=scale, out=padded[..., :size])
    return padded.softmax(-1)[..., :size]
