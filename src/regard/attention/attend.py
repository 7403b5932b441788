"""Attention itself: scores -> mask -> softmax -> weighted sum of the values; and its masks.

Masks are boolean, True where a query may attend to a key, and broadcast to (B, H, T, S).
"""

from contextlib import nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.attention.score_functions import ScoreFunction
from regard.kernels.dispatch import HALF_DTYPES
from regard.kernels.dropout import apply_dropout
from regard.types import AttentionHook, ScoreInputs, Site

SDPA_BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""torch's kernels on a GPU except cuDNN's, which returns the mean of all values for a fully masked
query, and compiles for each shape. `torch.backends.cuda.enable_cudnn_sdp(False)` avoids selecting
them at each call, which takes microseconds."""
UNMASKED_BACKENDS = [SDPBackend.CUDNN_ATTENTION, *SDPA_BACKENDS]
"""The kernels for sequences without padding, the fastest first. No query is then fully masked, and
in training all sequences have one length: cuDNN's kernel trains GPT-2 4 % faster than flash
attention."""
CPU_FORMULA_MAX_KEYS = 128
"""Up to this many keys, training in half precision on a CPU is faster by the formula than by the
kernel."""


def padding_mask(real: Tensor) -> Tensor:
    """Every query may attend to the keys that are not padding: `real` (B, S) -> (B, 1, 1, S)."""
    return real[:, None, None, :]


def causal_mask(queries: int, keys: int, *, device: torch.device | None = None) -> Tensor:
    """A query may attend to keys no later than itself; queries are the last positions."""
    positions = torch.arange(keys, device=device)  # (S,)
    return (positions[keys - queries :, None] >= positions)[None, None]  # (1, 1, T, S)


class KeyValues(NamedTuple):
    """Keys and values, split into heads; the keys as `ScoreFunction.prepare` returned them."""

    keys: Tensor  # (B, H, S, K)
    values: Tensor  # (B, H, S, K')

    def select_sentences(self, sentences: Tensor) -> "KeyValues":
        """The keys and values of `sentences` (B',)."""
        return KeyValues(*(x.index_select(0, sentences) for x in self))

    def append(self, added: "KeyValues") -> "KeyValues":
        """These keys and values, followed by the `added` ones of the same sentences."""
        return KeyValues(*(torch.cat(pair, dim=2) for pair in zip(self, added, strict=True)))


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the last axis where `mask` is True, zeros elsewhere; in float32 or wider."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    if mask is None:
        return scores.softmax(-1, dtype=wide)
    masked = ~mask
    weights = scores.masked_fill(masked, float("-inf")).softmax(-1, dtype=wide)
    return weights.masked_fill(masked, 0.0)  # replaces the NaN of fully masked rows


def attend(
    score: ScoreFunction,
    queries: Tensor,
    kv: KeyValues,
    mask: Tensor | None,
    *,
    site: Site,
    bias: Tensor | None = None,
    dropout: float = 0.0,
    hook: AttentionHook | None = None,
) -> Tensor:
    """The attention output of `queries` (B, H, T, K): (B, H, T, K').

    `mask` and `bias`, which is added to the scores, broadcast to (B, H, T, S); without a mask every
    query may attend to every key. A `hook` gets the weights and may replace them. The fused kernel
    is for scaled dot products without a hook. float64 always has the plain formula, so that a hook
    that changes nothing does not change a bit. If the score function is not `normalized`, there is
    no softmax: the scores are the weights.
    """
    scale = score.scale(queries.shape[-1])
    exact = hook is not None or queries.dtype == torch.float64
    if scale is not None and not exact and not _formula_is_faster(queries, kv.keys):
        return fused_attention(queries, kv, mask, scale=scale, bias=bias, dropout=dropout)
    scores = score(queries, kv.keys)  # (B, H, T, S)
    if bias is not None:
        scores = scores + bias
    if score.normalized:
        weights = masked_softmax(scores, mask)
    else:
        weights = scores if mask is None else scores.masked_fill(~mask, 0.0)
    if hook is not None:
        site = site._replace(normalized=score.normalized)
        if scale is not None:
            observe_scores(hook, site, ScoreInputs(queries, kv.keys, mask, bias, scale))
        weights = hook(site, weights)  # (B, H, T, S)
    return apply_dropout(weights, dropout).to(kv.values.dtype) @ kv.values  # (B, H, T, K')


def observe_scores(hook: AttentionHook, site: Site, inputs: ScoreInputs) -> None:
    """Pass a hook the inputs of the scores, if it is a `ScoreHook`."""
    observe = getattr(hook, "observe_scores", None)
    if observe is not None:
        observe(site, inputs)


def fused_attention(
    queries: Tensor,
    kv: KeyValues,
    mask: Tensor | None,
    *,
    scale: float,
    bias: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """`attend` by torch's kernel, for scores that are `scale` times a dot product."""
    if bias is not None:
        biased = bias if mask is None else torch.where(mask, bias, float("-inf"))
        mask = biased.to(queries.dtype)
    if mask is None:
        return unmasked_attention(queries, kv, scale=scale, dropout=dropout)
    with sdpa_kernel(SDPA_BACKENDS) if _may_use_cudnn(queries) else nullcontext():
        return F.scaled_dot_product_attention(
            queries, *kv, attn_mask=mask, dropout_p=dropout, scale=scale
        )


def unmasked_attention(
    queries: Tensor,
    kv: KeyValues,
    *,
    scale: float,
    dropout: float = 0.0,
    causal: bool = False,
) -> Tensor:
    """`fused_attention` of sequences without padding; `causal`: to keys no later than the query.

    Keys and values may have fewer heads than queries: each is then shared by a group of heads.
    """
    with sdpa_kernel(UNMASKED_BACKENDS, set_priority=True) if queries.is_cuda else nullcontext():
        return F.scaled_dot_product_attention(
            queries,
            *kv,
            dropout_p=dropout,
            is_causal=causal,
            scale=scale,
            enable_gqa=bool(kv.keys.shape[1] < queries.shape[1]),
        )


def _formula_is_faster(queries: Tensor, keys: Tensor) -> bool:
    """Whether the formula is faster than the kernel: training in half precision on a CPU."""
    return (
        queries.dtype in HALF_DTYPES
        and queries.device.type == "cpu"
        and torch.is_grad_enabled()
        and queries.requires_grad
        and keys.shape[2] <= CPU_FORMULA_MAX_KEYS
    )


def _may_use_cudnn(queries: Tensor) -> bool:
    if not queries.is_cuda or torch.compiler.is_compiling():  # cudnn_sdp_enabled is not traceable
        return queries.is_cuda
    return bool(torch.backends.cuda.cudnn_sdp_enabled())  # type: ignore[no-untyped-call]
