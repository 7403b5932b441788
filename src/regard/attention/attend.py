"""The one place where attention is computed: scores -> mask -> softmax -> mix."""

from contextlib import nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, device
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.scores import Score
from regard.kernels.dispatch import HALF_DTYPES
from regard.kernels.dropout import apply_dropout
from regard.types import AttentionHook, Site


def padding_mask(real: Tensor) -> Tensor:
    """Every query may look at the real keys: `real` (B, S) -> (B, 1, 1, S)."""
    return real[:, None, None, :]


def causal_mask(queries: int, keys: int, *, where: device | None = None) -> Tensor:
    """A query may look at keys no later than itself, the last query at all: (1, 1, T, S).

    Fewer queries than keys means that the first keys were there before: a cache.
    """
    place = torch.arange(keys, device=where)  # (S,)
    return (place[keys - queries :, None] >= place)[None, None]  # (1, 1, T, S)


def window_mask(centres: Tensor, keys: int, reach: int) -> Tensor:
    """A query may look `reach` keys to either side of its centre: (..., T) -> (..., T, S)."""
    place = torch.arange(keys, device=centres.device)  # (S,)
    return (place - centres[..., None]).abs() <= reach  # (..., T, S)


SDPA_BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Those of torch's kernels that keep our promises on a GPU.

cuDNN's, its first choice in half precision, is not among them: where a query may look at nothing
it mixes all values, and it takes a fifth of a second to build for each new shape of a batch. To
say so costs some microseconds a call; a program that owns its process saves them by calling
`torch.backends.cuda.enable_cudnn_sdp(False)` once.
"""


CPU_FORMULA_MAX_KEYS = 128
"""Up to so many keys, the kernel's backward pass in half precision on a CPU takes up to seven times
as long as the formula's."""


class KeyValues(NamedTuple):
    """What queries may look at, split into heads; the keys as `Score.prepare` left them."""

    keys: Tensor  # (B, H, S, K)
    values: Tensor  # (B, H, S, K')

    def select_sentences(self, sentences: Tensor) -> "KeyValues":
        """Those of some sentences (B',) alone."""
        return KeyValues(*(x.index_select(0, sentences) for x in self))

    def append(self, later: "KeyValues") -> "KeyValues":
        """These, and `later` ones of the same sentences behind them."""
        return KeyValues(*(torch.cat(pair, dim=2) for pair in zip(self, later, strict=True)))


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis where `mask` is True; a row with nothing to see is all zeros.

    Half precision is summed, and answered, in float32.
    """
    masked = ~mask
    wide = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.masked_fill(masked, float("-inf")).softmax(-1, dtype=wide)
    return weights.masked_fill(masked, 0.0)  # what is hidden is 0 already, or NaN in a blind row


def attend(
    score: Score,
    queries: Tensor,
    kv: KeyValues,
    mask: Tensor,
    *,
    site: Site,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    hook: AttentionHook | None = None,
) -> Tensor:
    """The values, mixed for each query (B, H, T, K) by what it may see and likes: (B, H, T, K').

    `mask` and `bias`, which is added to the scores, broadcast to (B, H, T, S). A fused kernel does
    it where there is one for this score function and nobody watches; float64, which is for tests
    and proofs, always takes the plain formula, so that watching changes not even the last bit.
    """
    scale = score.scale(queries.shape[-1])
    exact = hook is not None or queries.dtype == torch.float64
    if scale is not None and not exact and not _formula_is_faster(queries, kv.keys):
        return fused_attention(queries, kv, mask, scale=scale, bias=bias, dropout=dropout)
    return plain_attention(
        score, queries, kv, mask, site=site, bias=bias, dropout=dropout, hook=hook
    )


def plain_attention(
    score: Score,
    queries: Tensor,
    kv: KeyValues,
    mask: Tensor,
    *,
    site: Site,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    hook: AttentionHook | None = None,
) -> Tensor:
    """`attend` as its formula reads; `watch` sees the weights and may change them."""
    scores = score(queries, kv.keys)  # (B, H, T, S)
    if bias is not None:
        scores = scores + bias
    weights = masked_softmax(scores, mask)  # (B, H, T, S)
    if hook is not None:
        weights = hook(site, weights)
    return apply_dropout(weights, dropout).to(kv.values.dtype) @ kv.values  # (B, H, T, K')


def fused_attention(
    queries: Tensor,
    kv: KeyValues,
    mask: Tensor,
    *,
    scale: float,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` by torch's kernel, for scores that are `factor` times a dot product."""
    if bias is not None:
        bias = torch.where(mask, bias, float("-inf")).to(queries.dtype)
    with sdpa_kernel(SDPA_BACKENDS) if _may_use_cudnn(queries) else nullcontext():
        return F.scaled_dot_product_attention(
            queries,
            *kv,
            attn_mask=mask if bias is None else bias,
            dropout_p=dropout,
            scale=scale,
        )


def _formula_is_faster(queries: Tensor, keys: Tensor) -> bool:
    """Whether the kernel takes longer than the formula: in training, in half precision on a CPU."""
    learns = torch.is_grad_enabled() and queries.requires_grad
    halves = queries.dtype in HALF_DTYPES and queries.device.type == "cpu"
    return halves and learns and keys.shape[2] <= CPU_FORMULA_MAX_KEYS


def _may_use_cudnn(queries: Tensor) -> bool:
    if torch.compiler.is_compiling():  # the question below cannot be traced
        return queries.is_cuda
    return queries.is_cuda and bool(torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
