"""The position-wise feed-forward layer of a Transformer."""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.kernels.dispatch import DeferredBias, deferred_bias, use_kernel
from regard.kernels.fused_linear_relu import linear_relu
from regard.layers.dropout import Dropout

ActivationName = Literal["relu", "gelu", "swiglu"]


class FeedForward(nn.Module):
    """Linear, activation, linear: D -> hidden -> D (Vaswani et al. 2017, section 3.3).

    SwiGLU (Shazeer 2020) is silu(W x) ∘ V x, so it has a third matrix.
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
        self.outer = nn.Linear(hidden, width, bias=bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier for each matrix separately; zero biases."""
        for matrix in (*self.inner.weight.chunk(self.matrices), self.outer.weight):
            nn.init.xavier_uniform_(matrix)
        for bias in (self.inner.bias, self.outer.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        y: Tensor = self.outer(self.dropout(self._activated(x)))
        return y

    def deferred_bias(self, x: Tensor) -> DeferredBias:
        """`forward`, except that the last bias may be left to be added by the caller."""
        return deferred_bias(self.outer, self.dropout(self._activated(x)))

    def _activated(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., hidden)"""
        relu = self.activation == "relu"
        plain = relu and type(self.inner) is nn.Linear and self.inner.bias is not None
        if plain and self.training and use_kernel("fused_linear_relu", x):
            rows = x.flatten(0, -2)  # (N, D)
            return linear_relu(rows, self.inner.weight, self.inner.bias).view(*x.shape[:-1], -1)
        y: Tensor = self.inner(x)
        return y.relu_() if relu and not torch.is_grad_enabled() else activate(y, self.activation)


def activate(x: Tensor, activation: ActivationName) -> Tensor:
    """The activation function: (..., D) -> (..., D), or (..., D / 2) for SwiGLU."""
    match activation:
        case "relu":
            return F.relu(x)
        case "gelu":
            return F.gelu(x)
        case "swiglu":
            gate, value = x.chunk(2, dim=-1)
            return F.silu(gate) * value
