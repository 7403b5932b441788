"""Weights in fewer bits, for translating on CPUs: twins of linear layers that multiply faster.

Only products with weights change. What they are given and what they answer stays as precise as the
model is, so attention, norms, the recorder and the search never know.
"""

from typing import Literal, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.errors import SettingsError
from regard.layers.embeddings import TiedEmbeddings

Precision = Literal["float32", "bfloat16", "int8"]
"""Of the weights. float32 is the model as it was trained."""

SMALLEST = 32
"""Layers with fewer inputs or outputs stay as they are: there is nothing to gain."""
STEPS = 127
"""Of whole numbers from -127 to 127, to either side of zero."""
LEAST = 1e-30
"""Added to the size of each step, so that a row of zeros has one."""

LARGE = 1 << 17
"""Numbers from which two operations in place are faster than one that makes copies on its way."""


class _Part(NamedTuple):
    """Some outputs of a layer."""

    weight: Tensor  # (D, N) int8, as it lies (N, D)
    scales: Tensor  # (N,)
    bias: Tensor | None  # (N,)


class Int8Linear(nn.Module):
    """A linear layer whose product is one of whole numbers.

        y_n = s_n r Σ_k round(x_k / r) ŵ_nk + b_n,   r = max_k |x_k| / 127

    where ŵ_nk = round(w_nk / s_n) and s_n = max_k |w_nk| / 127: each row of inputs and each output
    has a scale of its own. The sum is exact, so that no row depends on those beside it.

    It stays where it was made, and nothing of it is saved: what it was made of is.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        scales = weight.abs().amax(-1) / STEPS + LEAST
        whole = (weight / scales[:, None]).round().to(torch.int8)
        self.least = torch.full((), LEAST, dtype=weight.dtype)
        self.all = _Part(whole.t(), scales, bias)
        self.parts: dict[tuple[int, int], _Part] = {}  # as they are asked for

    def forward(self, x: Tensor, outputs: tuple[int, int] | None = None) -> Tensor:
        """(..., D) -> (..., N), or of the N the `outputs` from the first number to the second."""
        weight, scales, bias = self.all if outputs is None else self._part(*outputs)
        rows = x.flatten(0, -2)  # (M, D)
        sizes = torch.add(self.least, rows.abs().amax(-1, keepdim=True), alpha=1 / STEPS)  # (M, 1)
        y = torch._int_mm((rows / sizes).round_().to(torch.int8), weight)  # (M, N)
        y = torch.mul(y, sizes) if y.numel() < LARGE else y.to(x.dtype).mul_(sizes)
        y = y.mul_(scales) if bias is None else torch.addcmul(bias, y, scales, out=y)
        return y.view(*x.shape[:-1], -1)

    __call__ = forward  # a step has two dozen of these, and none has hooks

    def _part(self, first: int, last: int) -> _Part:
        if (first, last) not in self.parts:
            weight, scales, bias = self.all
            some = None if bias is None else bias[first:last]
            self.parts[first, last] = _Part(weight[:, first:last], scales[first:last], some)
        return self.parts[first, last]


class Bfloat16Linear(nn.Module):
    """A linear layer whose inputs and weights are rounded to bfloat16 before their product."""

    weight: Tensor  # (N, D)
    bias: Tensor | None  # (N,)

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.to(torch.bfloat16))
        self.register_buffer("bias", None if bias is None else bias.to(torch.bfloat16))

    def forward(self, x: Tensor, outputs: tuple[int, int] | None = None) -> Tensor:
        """(..., D) -> (..., N), or of the N the `outputs` from the first number to the second."""
        weight, bias = self.weight, self.bias
        if outputs is not None:
            some = slice(*outputs)
            weight, bias = weight[some], None if bias is None else bias[some]
        return F.linear(x.to(torch.bfloat16), weight, bias).to(x.dtype)


TWINS = {"bfloat16": Bfloat16Linear, "int8": Int8Linear}


@torch.no_grad()
def quantise(model: nn.Module, precision: Precision) -> nn.Module:
    """`model` itself, its linear layers replaced by their twins: it can no longer be trained.

    Those of any model are found, and the matrix that tied embeddings make logits with. What is no
    linear layer stays as it is: recurrent cells and experts.
    """
    if precision == "float32":
        return model
    where = next(model.parameters()).device.type
    if precision == "int8" and where != "cpu":
        raise SettingsError(
            f"weights in int8 are for CPUs, and the model is on {where}: choose bfloat16 or float32"
        )
    twin = TWINS[precision]
    for module in list(model.modules()):
        if isinstance(module, TiedEmbeddings):
            module.reader = twin(module.outputs.detach(), None)
        for name, part in module.named_children():
            if isinstance(part, nn.Linear) and min(part.weight.shape) >= SMALLEST:
                bias = None if part.bias is None else part.bias.detach()
                setattr(module, name, twin(part.weight.detach(), bias))
    return model
