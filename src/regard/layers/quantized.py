"""Linear layers with quantized weights, for CPUs; inputs and outputs keep their precision."""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import SettingsError
from regard.layers.transformer_parts import FeedForward, TiedEmbeddings

NativePrecision = Literal["float32", "bfloat16", "int8"]
"""Precisions of the weights; float32 is the model as it was trained."""

MIN_FEATURES = 32
"""Layers with fewer inputs or outputs are not replaced, as it would not be faster."""
INT8_MAX = 127
SCALE_EPSILON = 1e-30
"""Added to each scale, so that rows of zeros have one above 0."""


class _Int8Slice(NamedTuple):
    """Some outputs of a layer."""

    weight: Tensor  # (D, N) int8, the transposed view of a tensor (N, D)
    scales: Tensor  # (N,)
    bias: Tensor | None  # (N,)
    shift: Tensor | None  # (N,) int32


class Int8Linear(nn.Module):
    """A linear layer that multiplies integers.

        y_n = s_n r Σ_k round(x_k / r) ŵ_nk + b_n,   r = max_k |x_k| / 127

    where ŵ_nk = round(w_nk / s_n) and s_n = max_k |w_nk| / 127: each row of inputs and each output
    has its own scale. The sum is exact, so that no row depends on others. Inputs that are
    `positive` have twice as many steps:

        y_n = s_n r (Σ_k round(x_k / r - 127) ŵ_nk + 127 Σ_k ŵ_nk) + b_n,   r = max_k x_k / 254

    It has no parameters or buffers: it is not moved to other devices, nor saved.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, *, positive: bool = False) -> None:
        super().__init__()
        scales = weight.abs().amax(-1) / INT8_MAX + SCALE_EPSILON
        rounded = (weight / scales[:, None]).round().to(torch.int8)
        shift = INT8_MAX * rounded.sum(-1, dtype=torch.int32) if positive else None
        self.positive, self.step = positive, 1 / (2 * INT8_MAX if positive else INT8_MAX)
        self.epsilon = torch.full((), SCALE_EPSILON, dtype=weight.dtype)
        self.all = _Int8Slice(rounded.t(), scales, bias, shift)
        self.slices: dict[tuple[int, int], _Int8Slice] = {}  # made on first use

    def forward(self, x: Tensor, outputs: tuple[int, int] | None = None) -> Tensor:
        """(..., D) -> (..., N), or only the outputs from the first number up to the second."""
        weight, scales, bias, shift = self.all if outputs is None else self._slice(*outputs)
        rows = x.flatten(0, -2)  # (M, D)
        max_abs = (rows if self.positive else rows.abs()).amax(-1, keepdim=True)  # (M, 1)
        scales_in = torch.add(self.epsilon, max_abs, alpha=self.step)  # (M, 1)
        scaled = rows / scales_in
        if shift is not None:
            scaled.sub_(INT8_MAX)
        rounded = torch._int_mm(scaled.round_().to(torch.int8), weight)  # (M, N)
        if shift is not None:
            rounded.add_(shift)
        y = rounded.view(x.dtype).copy_(rounded).mul_(scales_in)  # in place: no new memory
        y = y.mul_(scales) if bias is None else torch.addcmul(bias, y, scales, out=y)
        return y.view(*x.shape[:-1], -1)

    __call__ = forward  # skips the overhead of hooks

    def _slice(self, first: int, last: int) -> _Int8Slice:
        if (first, last) not in self.slices:
            (weight, scales, *others), some = self.all, slice(first, last)
            bias, shift = (None if x is None else x[some] for x in others)
            self.slices[first, last] = _Int8Slice(weight[:, some], scales[some], bias, shift)
        return self.slices[first, last]


class Bfloat16Linear(nn.Module):
    """A linear layer whose inputs and weights are rounded to bfloat16 before their product."""

    weight: Tensor  # (N, D)
    bias: Tensor | None  # (N,)

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.to(torch.bfloat16))
        self.register_buffer("bias", None if bias is None else bias.to(torch.bfloat16))

    def forward(self, x: Tensor, outputs: tuple[int, int] | None = None) -> Tensor:
        """(..., D) -> (..., N), or only the outputs from the first number up to the second."""
        weight, bias = self.weight, self.bias
        if outputs is not None:
            some = slice(*outputs)
            weight, bias = weight[some], None if bias is None else bias[some]
        return F.linear(x.to(torch.bfloat16), weight, bias).to(x.dtype)


@torch.no_grad()
def quantize(model: nn.Module, precision: NativePrecision) -> nn.Module:
    """`model` itself, with its linear layers replaced by quantized ones, after which it cannot be
    trained.

    The output matrix of tied embeddings is quantized too; recurrent cells and experts are not. On a
    GPU the whole model is converted to bfloat16.
    """
    if precision == "float32":
        return model
    where = next(model.parameters()).device.type
    if where != "cpu":
        if precision == "int8":
            raise SettingsError(
                f"weights in int8 are for CPUs, and the model is on {where}: choose bfloat16 or "
                "float32"
            )
        return model.to(torch.bfloat16)
    for module in list(model.modules()):
        if isinstance(module, TiedEmbeddings):
            module.quantized_output = _quantized_linear(precision, module.outputs, module.bias)
        for name, part in module.named_children():
            if isinstance(part, nn.Linear) and min(part.weight.shape) >= MIN_FEATURES:
                after_relu = isinstance(module, FeedForward) and module.activation == "relu"
                positive = after_relu and name == "outer"
                quantized = _quantized_linear(precision, part.weight, part.bias, positive=positive)
                setattr(module, name, quantized)
    return model


def _quantized_linear(
    precision: NativePrecision, weight: Tensor, bias: Tensor | None, *, positive: bool = False
) -> nn.Module:
    """The layer for `weight` and `bias`; `positive`: its inputs are not negative."""
    weight, bias = weight.detach(), None if bias is None else bias.detach()
    if precision == "bfloat16":
        return Bfloat16Linear(weight, bias)
    return Int8Linear(weight, bias, positive=positive)
