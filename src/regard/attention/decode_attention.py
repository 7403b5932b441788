"""Attention of the few queries of a decoding step: two matrix products, or a kernel on a GPU.

torch's fused kernel processes blocks of many queries; for one to some dozens it takes about twice
as long. The GPU kernel is in `kernels/decode_attention.py`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from regard.attention.attend import KeyValues
from regard.kernels.decode_attention import decode_attention
from regard.kernels.dispatch import use_decode_attention


class SourceMask(NamedTuple):
    """The padding mask of the source, prepared once for all steps of a search."""

    mask: Tensor  # (B, 1, 1, S)
    bias: Tensor  # (B, 1, 1, S) the same to be added to scores: 0 or half the lowest number

    @classmethod
    def of(cls, mask: Tensor, dtype: torch.dtype) -> "SourceMask":
        """From `mask` (B, 1, 1, S), for scores of this type."""
        zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
        return cls(mask, zeros.masked_fill_(~mask, torch.finfo(dtype).min / 2))

    def select_sentences(self, sentences: Tensor) -> "SourceMask":
        """That of `sentences` (B',)."""
        return SourceMask(self.mask[sentences], self.bias[sentences])

    def zero_masked(self, kv: KeyValues) -> KeyValues:
        """`kv` (B, H, S, K), contiguous, with masked values set to zero.

        So a fully masked query, whose weights are then all equal, yields zeros.
        """
        values = kv.values.masked_fill(~self.mask.mT, 0.0)
        return KeyValues(kv.keys.contiguous(), values.contiguous())


def use_attend_step(queries: Tensor) -> bool:
    """Whether `attend_step` is faster than `attend` for the `queries` of a decoding step."""
    plain = queries.dtype == torch.float32 and queries.device.type == "cpu"
    return plain or use_decode_attention(queries)


def attend_step(queries: Tensor, kv: KeyValues, bias: Tensor, *, scale: float) -> Tensor:
    """`attend` for scores that are `scale` times a dot product: (B, H, T, K) -> (B, H, T, K').

    `bias`, which broadcasts to (B, H, T, S), is added to the scores: 0 or, to mask a key, -inf or
    a number close to it. A query may be fully masked only if the masked values are zero.
    """
    supported = bias.shape[1] == 1 and kv.keys.shape == kv.values.shape
    if use_decode_attention(queries) and supported and not torch.is_grad_enabled():
        return decode_attention(queries, *kv, bias, scale=scale)
    scores = queries @ kv.keys.mT  # (B, H, T, S)
    return torch.add(bias, scores, alpha=scale).softmax(-1) @ kv.values  # (B, H, T, K')
