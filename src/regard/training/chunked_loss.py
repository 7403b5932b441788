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

from regard.kernels.loss import smoothed_slopes_
from regard.models.contracts import Projection

CELLS = {"cpu": 1 << 22}
"""Logits of a chunk: on a CPU as many as its caches hold."""
MANY_CELLS = 1 << 28
"""Logits of a chunk elsewhere: enough to keep any device busy, as few as half a gigabyte holds."""
EVEN = 128
"""Chunks of more rows have a multiple of so many, as the tiles of a GPU's products do."""


class ChunkedLoss(NamedTuple):
    """Sums over all rows."""

    minimised: Tensor  # ()
    surprise: Tensor  # () negative log-likelihood in nats, which has no slopes


def chunked_loss(
    features: Tensor, output: Projection, labels: Tensor, smoothing: float
) -> ChunkedLoss:
    """`smoothed_cross_entropy` of the logits that `output` makes of `features` (M, D).

    The logits are made in autocast's precision where there is one; their slopes are added up in
    float32.
    """
    given = (features, output.weight, output.bias)
    wanted = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
    return ChunkedLoss(*_Chunks.apply(*given, labels, smoothing, wanted))  # type: ignore[no-untyped-call]


class _Chunks(torch.autograd.Function):
    """Features (M, D), weight (V, D), bias (V,) -> what is minimised, and the surprise."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        smoothing: float,
        wanted: bool,
    ) -> tuple[Tensor, Tensor]:
        kind = features.device.type
        if torch.is_autocast_enabled(kind):
            dtype = torch.get_autocast_dtype(kind)
        else:
            dtype = torch.promote_types(features.dtype, weight.dtype)
        precise = torch.promote_types(dtype, torch.float32)
        matrix, shift = weight.to(dtype), None if bias is None else bias.to(dtype)
        of_features = torch.empty_like(features, dtype=dtype) if wanted else None
        of_weight: Tensor | None = None
        of_bias = torch.zeros_like(bias, dtype=precise) if wanted and bias is not None else None
        totals = features.new_zeros(2, dtype=precise)
        size = max(1, CELLS.get(kind, MANY_CELLS) // len(weight))
        size = size - size % EVEN if size > EVEN else size
        with torch.autocast(kind, enabled=False):
            for first in range(0, len(labels), size):
                rows = slice(first, first + size)
                x = features[rows].to(dtype)  # (R, D)
                slopes = F.linear(x, matrix, shift)  # (R, V): logits, as yet
                costs = smoothed_slopes_(slopes, labels[rows], smoothing)
                totals += torch.stack([costs.minimised.sum(), costs.surprise.sum()])
                if of_features is not None:
                    torch.mm(slopes, matrix, out=of_features[rows])
                    part = slopes.mT @ x  # (V, D)
                    of_weight = part.to(precise) if of_weight is None else of_weight.add_(part)
                if of_bias is not None:
                    of_bias += slopes.sum(0, dtype=precise)
        if wanted and of_weight is None:  # there was no row
            of_weight = torch.zeros_like(weight, dtype=precise)
        ctx.save_for_backward(of_features, of_weight, of_bias)
        ctx.dtypes = features.dtype, weight.dtype, None if bias is None else bias.dtype
        minimised, surprise = totals.unbind()
        ctx.mark_non_differentiable(surprise)
        return minimised, surprise

    @staticmethod
    def backward(ctx: Any, slope: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        made = zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        return (
            *(None if x is None else (x * slope).to(dtype) for x, dtype in made),
            None,
            None,
            None,
        )
