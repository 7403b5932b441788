"""What is done to each position by itself."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.deferred_bias import DeferredBias, Linear, deferred_bias
from regard.kernels.fused_linear_relu import linear_relu, use_linear_relu
from regard.layers.dropout import Dropout

ActivationName = Literal["relu", "gelu", "swiglu"]


class FeedForward(nn.Module):
    """Two linear layers with a bend between: D -> hidden -> D (Vaswani et al. 2017, section 3.3).

    SwiGLU (Shazeer 2020) bends by a gate, silu(W x) ∘ V x, and so has a third matrix.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        activation: ActivationName,
        *,
        dropout: float = 0.0,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.activation: ActivationName = activation
        self.matrices = 2 if activation == "swiglu" else 1
        self.inner = nn.Linear(width, self.matrices * hidden, bias=bias)
        self.dropout = Dropout(dropout)
        self.outer = Linear(hidden, width, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for each matrix by itself; zero biases."""
        for matrix in (*self.inner.weight.chunk(self.matrices), self.outer.weight):
            nn.init.xavier_uniform_(matrix)
        for bias in (self.inner.bias, self.outer.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        out: Tensor = self.outer(self.dropout(self._activated(x)))
        return out

    def deferred_bias(self, x: Tensor) -> DeferredBias:
        """`forward` of packed rows (N, D), which may leave its last bias to others."""
        return deferred_bias(self.outer, self.dropout(self._activated(x)))

    def _activated(self, x: Tensor) -> Tensor:
        """What stands between the two: (..., D) -> (..., hidden)."""
        fast = self.activation == "relu" and type(self.inner) is nn.Linear  # not in fewer bits
        if fast and self.inner.bias is not None and use_linear_relu(x, training=self.training):
            rows = x.flatten(0, -2)  # (N, D)
            return linear_relu(rows, self.inner.weight, self.inner.bias).view(*x.shape[:-1], -1)
        made: Tensor = self.inner(x)
        if self.activation == "relu" and not torch.is_grad_enabled():
            return made.relu_()  # in its place: nobody else has it
        return activate(made, self.activation)


def activate(x: Tensor, activation: ActivationName) -> Tensor:
    """What stands between two linear layers: (..., D) -> (..., D), or half as wide for SwiGLU."""
    match activation:
        case "relu":
            return F.relu(x)
        case "gelu":
            return F.gelu(x)
        case "swiglu":
            gate, value = x.chunk(2, dim=-1)
            return F.silu(gate) * value


def maxout(x: Tensor) -> Tensor:
    """The larger of each pair of neighbours (Goodfellow et al. 2013): (..., 2 D) -> (..., D)."""
    return torch.unflatten(x, -1, (-1, 2)).amax(-1)
