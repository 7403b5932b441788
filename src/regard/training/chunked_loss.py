"""The output layer and the loss in one, a chunk of rows at a time.

All logits of a batch, M rows of V numbers, would be the largest tensor of a step by far, and go
through memory a dozen times. Here a chunk of them is made, compared with its labels, turned into
its own slopes and used up before the next one is made: whoever asks for the slopes later finds
them ready.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.kernels.cross_entropy import cross_entropy_and_grad_
from regard.models.contracts import OutputProjection

CHUNK_LOGITS = {"cpu": 1 << 22}
"""Logits of a chunk: on a CPU as many as its caches hold."""
CHUNK_LOGITS_ON_GPU = 1 << 28
"""Logits of a chunk elsewhere: enough to keep any device busy, as few as half a gigabyte holds."""
ROW_MULTIPLE = 128
"""Chunks of more rows have a multiple of so many, as the tiles of a GPU's products do."""


class ChunkedLosses(NamedTuple):
    """Sums over all rows."""

    loss: Tensor  # ()
    nll: Tensor  # () negative log-likelihood in nats, which has no slopes


def chunked_loss(
    features: Tensor, output: OutputProjection, labels: Tensor, smoothing: float
) -> ChunkedLosses:
    """`smoothed_cross_entropy` of the logits that `output` makes of `features` (M, D).

    The logits are made in autocast's precision where there is one; their slopes are added up in
    float32.
    """
    inputs = (features, output.weight, output.bias)
    need_grad = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    return ChunkedLosses(*_ChunkedCrossEntropy.apply(*inputs, labels, smoothing, need_grad))  # type: ignore[no-untyped-call]


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Features (M, D), weight (V, D), bias (V,) -> what is minimised, and the surprise."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        need_grad: bool,
    ) -> tuple[Tensor, Tensor]:
        kind = features.device.type
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        else:
            dtype = torch.promote_types(features.dtype, weight.dtype)
        sum_dtype = torch.promote_types(dtype, torch.float32)
        cast_weight, cast_bias = weight.to(dtype), None if bias is None else bias.to(dtype)
        features_grad = torch.empty_like(features, dtype=dtype) if need_grad else None
        weight_grad: Tensor | None = None
        bias_grad = (
            torch.zeros_like(bias, dtype=sum_dtype) if need_grad and bias is not None else None
        )
        totals = features.new_zeros(2, dtype=sum_dtype)
        chunk_rows = max(1, CHUNK_LOGITS.get(kind, CHUNK_LOGITS_ON_GPU) // len(weight))
        chunk_rows = (
            chunk_rows - chunk_rows % ROW_MULTIPLE if chunk_rows > ROW_MULTIPLE else chunk_rows
        )
        with torch.autocast(kind, enabled=False):
            for first in range(0, len(labels), chunk_rows):
                rows = slice(first, first + chunk_rows)
                x = features[rows].to(dtype)  # (R, D)
                grads = F.linear(x, cast_weight, cast_bias)  # (R, V): logits, as yet
                losses = cross_entropy_and_grad_(grads, labels[rows], smoothing)
                totals += torch.stack([losses.loss.sum(), losses.nll.sum()])
                if features_grad is not None:
                    torch.mm(grads, cast_weight, out=features_grad[rows])
                    part = grads.mT @ x  # (V, D)
                    weight_grad = (
                        part.to(sum_dtype) if weight_grad is None else weight_grad.add_(part)
                    )
                if bias_grad is not None:
                    bias_grad += grads.sum(0, dtype=sum_dtype)
        if need_grad and weight_grad is None:  # there was no row
            weight_grad = torch.zeros_like(weight, dtype=sum_dtype)
        ctx.save_for_backward(features_grad, weight_grad, bias_grad)
        ctx.dtypes = features.dtype, weight.dtype, None if bias is None else bias.dtype
        loss, nll = totals.unbind()
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        saved = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        return (
            *(None if x is None else (x * grad).to(dtype) for x, dtype in saved),
            None,
            None,
            None,
        )
