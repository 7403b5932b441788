"""The residual connection, dropout and layer norm around each sub-layer of a Transformer."""

from typing import Literal

from torch import Tensor, nn

from regard.kernels.dispatch import DeferredBias, use_kernel
from regard.kernels.fused_add_norm import LayerNormParams, add_norm, add_norm_with_sum
from regard.layers.dropout import Dropout

NormPosition = Literal["post", "pre"]


class Residual(nn.Module):
    """What surrounds a sub-layer f.

    `post`: norm(x + dropout(f(x))) (Vaswani et al. 2017). `pre`: x + dropout(f(norm(x))), which
    trains without warm-up and in deeper stacks (Xiong et al. 2020). On a GPU, a kernel computes it
    in half-precision training.
    """

    def __init__(self, width: int, norm_position: NormPosition, dropout: float) -> None:
        super().__init__()
        self.pre_norm = norm_position == "pre"
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def pre(self, x: Tensor) -> Tensor:
        """The input of the sub-layer for `x` (..., D)."""
        return self.norm(x) if self.pre_norm else x

    def post(self, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
        """The output for the input `x` and the output `y` of the sub-layer, each (..., D).

        `bias` (D,) is added to `y` first.
        """
        if self.training and not self.pre_norm and use_kernel("fused_add_norm", y):
            rows, p = (x.flatten(0, -2), y.flatten(0, -2)), self.dropout.p  # (N, D) each
            return add_norm(*rows, self._norm_params, bias=bias, dropout=p).view(y.shape)
        y = y if bias is None else y + bias
        x = x + (self.dropout(y) if self.training else y)
        return x if self.pre_norm else self.norm(x)

    def post_then_pre(
        self, x: Tensor, y: DeferredBias, following: "Residual"
    ) -> tuple[Tensor, Tensor]:
        """The output, and the input of the sub-layer inside the `following` residual."""
        if self.training and self.pre_norm and use_kernel("fused_add_norm", y.output):
            rows = x.flatten(0, -2), y.output.flatten(0, -2)  # (N, D) each
            norm, p = following._norm_params, self.dropout.p
            added, normed = add_norm_with_sum(*rows, norm, bias=y.bias, dropout=p)
            return added.view(x.shape), normed.view(x.shape)
        x = self.post(x, *y)
        return x, following.pre(x)

    @property
    def _norm_params(self) -> LayerNormParams:
        return LayerNormParams(self.norm.weight, self.norm.bias, self.norm.eps)
