"""The parts of a Transformer other than attention: embeddings, feed-forward layers, residuals."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.multihead import StackedLinear
from regard.kernels.dispatch import product_dtype, use_add_norm, use_kernel, use_layer_norm
from regard.kernels.dropout import Dropout
from regard.kernels.fused_add_norm import (
    LayerNormParams,
    add_norm,
    add_norm_with_sum,
    layer_norm,
)
from regard.kernels.fused_linear import fused_linear
from regard.text.special_tokens import BOS

Tying = Literal["shared", "inputs", "target", "separate"]
PlainActivation = Literal[
    "relu",
    "gelu",
    "gelu_tanh",
    "silu",
    "gelu_sigmoid",
    "gelu_clipped",
    "hardswish",
    "laplace",
    "leaky_relu",
    "linear",
    "mish",
    "relu2",
    "relu6",
    "sigmoid",
    "sqrt_softplus",
    "tanh",
]
ActivationName = Literal[PlainActivation, "swiglu"]
NormPosition = Literal["post", "pre"]
NormName = Literal["layer", "rms"]
ABSENT_LOGIT = -1e9  # of ids that stand for no token; finite in all precisions but float16


ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # GPT-2's formula for GELU
    "silu": F.silu,
    "gelu_sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "gelu_clipped": lambda x: F.gelu(x).clip(-10, 10),
    "hardswish": F.hardswish,
    "laplace": lambda x: 0.5 * (1 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2)))),
    "leaky_relu": F.leaky_relu,
    "linear": lambda x: x,
    "mish": F.mish,
    "relu2": lambda x: F.relu(x).square(),
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "sqrt_softplus": lambda x: F.softplus(x).sqrt(),
    "tanh": torch.tanh,
}
"""Activation functions that keep the width; SwiGLU does not."""


class TiedEmbeddings(nn.Module):
    """The vectors of source tokens, of target tokens, and the matrix of the output layer.

    `shared`: one matrix is all three (Vaswani et al. 2017, section 3.4; needs one vocabulary for
    both languages). `inputs`: one for source and target, one for the output. `target`: one for the
    source, one for target and output. `separate`: three. Vectors of tokens are multiplied by √D if
    `scaled`; the output layer may have a bias. Ids in `absent` stand for no token and have the
    logit ABSENT_LOGIT. A target begins with the vector of the token `start` in place of BOS; that
    token may have another use too.
    """

    absent_bias: Tensor | None  # (V,) added to the logits; None: every id stands for a token

    def __init__(
        self,
        source_size: int,
        target_size: int,
        width: int,
        tying: Tying,
        *,
        scaled: bool = True,
        bias: bool = False,
        absent: Sequence[int] = (),
        start: int = BOS,
    ) -> None:
        super().__init__()
        shared = tying in ("shared", "inputs")
        if shared and source_size != target_size:
            raise ValueError(
                f"shared embeddings need one vocabulary, got {source_size=} and {target_size=}"
            )
        self.width, self.scale, self.start = width, math.sqrt(width) if scaled else 1.0, start
        self.source = nn.Parameter(torch.empty(source_size, width))
        self.target = None if shared else nn.Parameter(torch.empty(target_size, width))
        own = tying in ("inputs", "separate")
        self.output = nn.Parameter(torch.empty(target_size, width)) if own else None
        self.output_bias = nn.Parameter(torch.zeros(target_size)) if bias else None
        impossible = absent_bias(absent, target_size) if absent else None
        self.register_buffer("absent_bias", impossible, persistent=False)
        self.quantized_output: nn.Module | None = None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal with variance 1 / D: vectors, once scaled, and logits have unit variance."""
        for matrix in (self.source, self.target, self.output):
            if matrix is not None:
                nn.init.normal_(matrix, std=self.width**-0.5)

    def of_source(self, ids: Tensor) -> Tensor:
        """(B, S) -> (B, S, D), scaled."""
        return F.embedding(ids, self.source) * self.scale

    def of_target(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, D), scaled."""
        if self.start != BOS:
            ids = ids.masked_fill(ids == BOS, self.start)
        return F.embedding(ids, self._target) * self.scale

    def logits(self, features: Tensor) -> Tensor:
        """(..., D) -> (..., V)"""
        if self.quantized_output is not None:
            logits: Tensor = self.quantized_output(features)
            return logits
        return F.linear(features, self.outputs, self.bias)

    @property
    def bias(self) -> Tensor | None:
        """The bias (V,) of the output layer, with that of absent ids; None: there is none."""
        if self.absent_bias is None or self.output_bias is None:
            return self.output_bias if self.absent_bias is None else self.absent_bias
        return self.output_bias + self.absent_bias

    @property
    def outputs(self) -> nn.Parameter:
        """The matrix (V, D) of the output layer."""
        return self._target if self.output is None else self.output

    @property
    def _target(self) -> nn.Parameter:
        return self.source if self.target is None else self.target


def absent_bias(absent: Sequence[int], size: int) -> Tensor:
    """A bias (V,) of the logits that excludes ids that stand for no token."""
    return torch.zeros(size).index_fill_(0, torch.tensor(absent), ABSENT_LOGIT)


class FeedForward(nn.Module):
    """Linear, activation, linear: D -> hidden -> D (Vaswani et al. 2017, section 3.3).

    With `gated` it is activation(W x) ∘ V x, so it has a third matrix; SwiGLU (Shazeer 2020) is
    `silu` with it. The forward pass returns what comes before the last linear layer: the residual
    connection around it applies `outer`.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        activation: ActivationName,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        gated: bool = False,
    ) -> None:
        super().__init__()
        self.activation: ActivationName = activation
        self.gated = gated or activation == "swiglu"
        self.matrices = 2 if self.gated else 1
        self.inner: nn.Linear = (
            nn.Linear(width, hidden, bias=bias)
            if self.matrices == 1
            else StackedLinear(width, [hidden] * self.matrices, bias=bias)
        )
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
        """(..., D) -> (..., hidden)"""
        return self.dropout(self._activated(x))

    def _activated(self, x: Tensor) -> Tensor:
        inner, name = self.inner, self.activation
        plain = type(inner) is nn.Linear and inner.bias is not None and not self.gated
        fuses = self.training and plain and use_kernel(f"fused_linear_{name}", x)
        if fuses and (name == "relu" or name == "gelu"):
            rows = x.flatten(0, -2)  # (N, D)
            return fused_linear(rows, inner.weight, inner.bias, name).view(*x.shape[:-1], -1)
        y: Tensor = inner(x)
        in_place = name == "relu" and not self.gated and not torch.is_grad_enabled()
        return y.relu_() if in_place else activate(y, name, gated=self.gated)


def draw_normal(model: nn.Module, std: float) -> None:
    """Draw the matrices and embeddings of a model from a normal distribution; zero biases."""
    for module in model.modules():
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=std)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def activate(x: Tensor, activation: ActivationName, *, gated: bool = False) -> Tensor:
    """The activation function: (..., D) -> (..., D), or (..., D / 2) if gated, as SwiGLU is."""
    if gated or activation == "swiglu":
        gate, value = x.chunk(2, dim=-1)
        return activate(gate, "silu" if activation == "swiglu" else activation) * value
    return ACTIVATIONS[activation](x)


class Residual(nn.Module):
    """The residual connection, dropout and layer norm around a sub-layer f.

    `post`: norm(x + dropout(f(x))) (Vaswani et al. 2017). `pre`: x + dropout(f(norm(x))), which
    trains without warm-up and in deeper stacks (Xiong et al. 2020). It applies the last `linear`
    layer of f itself, because a training kernel fuses its bias with what follows. The output of f
    may be scaled for each row of x (see `drop_path_scales`).
    """

    def __init__(
        self,
        width: int,
        norm_position: NormPosition,
        dropout: float,
        *,
        norm: NormName = "layer",
        epsilon: float | None = None,
    ) -> None:
        """`epsilon` is added to the variance: by default 1e-5 in layer norms, and in RMS norms the
        machine epsilon of the precision.
        """
        super().__init__()
        self.pre_norm = norm_position == "pre"
        self.norm: nn.Module
        if norm == "layer":
            self.norm = nn.LayerNorm(width, 1e-5 if epsilon is None else epsilon)
        else:
            self.norm = nn.RMSNorm(width, epsilon)
        self.dropout = Dropout(dropout)

    def pre(self, x: Tensor) -> Tensor:
        """The input of the sub-layer for `x` (..., D)."""
        return apply_norm(self.norm, x) if self.pre_norm else x

    def post(
        self,
        x: Tensor,
        y: Tensor,
        linear: nn.Module | None = None,
        *,
        scales: Tensor | None = None,
    ) -> Tensor:
        """The output (..., D) for `x` (..., D) and the sub-layer's output, which is `linear(y)`
        times `scales` (...), if given.
        """
        if self.training and not self.pre_norm and self._fuses(y):
            y, bias = _without_bias(linear, y)
            rows, p = (x.flatten(0, -2), y.flatten(0, -2)), self.dropout.p  # (N, D) each
            norm, s = self._norm_params, _flat(scales)
            return add_norm(*rows, norm, bias=bias, dropout=p, scales=s).view(y.shape)
        y = y if linear is None else linear(y)
        if scales is not None:
            y = y * scales[..., None].to(y.dtype)
        x = x + (self.dropout(y) if self.training else y)
        return x if self.pre_norm else self.norm(x)

    def post_then_pre(
        self,
        x: Tensor,
        y: Tensor,
        linear: nn.Module,
        following: "Residual",
        *,
        scales: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The output, and the input of the sub-layer inside the `following` residual."""
        if self.training and self.pre_norm and following._fuses(y):
            y, bias = _without_bias(linear, y)
            rows, p = (x.flatten(0, -2), y.flatten(0, -2)), self.dropout.p  # (N, D) each
            norm, s = following._norm_params, _flat(scales)
            added, normed = add_norm_with_sum(*rows, norm, bias=bias, dropout=p, scales=s)
            return added.view(x.shape), normed.view(x.shape)
        x = self.post(x, y, linear, scales=scales)
        return x, following.pre(x)

    def _fuses(self, y: Tensor) -> bool:
        """Whether the kernel for training computes the norm."""
        norm = self.norm
        return isinstance(norm, nn.LayerNorm) and use_add_norm(y, width=norm.weight.shape[0])

    @property
    def _norm_params(self) -> LayerNormParams:
        assert isinstance(self.norm, nn.LayerNorm)
        return _norm_params(self.norm)


def apply_norm(norm: nn.Module, x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """norm(x) (..., D). If the training kernel computes it, its precision is `dtype`, or that of
    the products that read it.
    """
    if isinstance(norm, nn.LayerNorm) and norm.training and use_layer_norm(x):
        rows = x.flatten(0, -2)  # (N, D)
        return layer_norm(rows, _norm_params(norm), dtype or product_dtype(x)).view(x.shape)
    normed: Tensor = norm(x)
    return normed


def _norm_params(norm: nn.LayerNorm) -> LayerNormParams:
    return LayerNormParams(norm.weight, norm.bias, norm.eps)


def drop_path_scales(shape: tuple[int, int], p: float, device: torch.device) -> Tensor:
    """Factors (B, T) of a sub-layer's output, one for all positions of an example: 0 for about `p`
    of the examples, and 1 / (1 - p) for the others (Huang et al. 2016, stochastic depth).
    """
    kept = torch.rand(shape[0], 1, device=device) >= p
    return (kept / (1 - p)).expand(shape)


def _flat(scales: Tensor | None) -> Tensor | None:
    """(...) -> (N,), for a kernel."""
    return None if scales is None else scales.flatten().contiguous()


def _without_bias(linear: nn.Module | None, y: Tensor) -> tuple[Tensor, Tensor | None]:
    """`linear(y)` and None; for packed rows (N, D), the product without the bias, and the bias."""
    if isinstance(linear, nn.Linear) and y.ndim == 2:
        return F.linear(y, linear.weight), linear.bias
    return y if linear is None else linear(y), None
