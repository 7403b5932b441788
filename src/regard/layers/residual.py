"""What goes around each sub-layer of a Transformer."""

from typing import Literal

from torch import Tensor, nn

from regard.kernels.deferred_bias import DeferredBias
from regard.kernels.dispatch import use_kernel
from regard.kernels.fused_add_norm import LayerNormParams, add_norm, add_norm_with_sum, use_add_norm
from regard.layers.dropout import Dropout

NormPosition = Literal["post", "pre"]


class Residual(nn.Module):
    """A way past a sub-layer f, dropout behind it, and a norm on the one side or the other.

    `post`: norm(x + f(x)) (Vaswani et al. 2017). `pre`: x + f(norm(x)), which trains without
    warm-up and in deeper stacks (Xiong et al. 2020).
    """

    def __init__(self, width: int, place: NormPosition, dropout: float) -> None:
        super().__init__()
        self.first = place == "pre"
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def pre(self, x: Tensor) -> Tensor:
        """What the sub-layer is given for `x` (..., D)."""
        return self.norm(x) if self.first else x

    def post(self, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
        """What comes out, where the sub-layer made `y` of `x`, its `bias` (D,) yet to be added.

        On a GPU, one kernel does it in training in half precision, and answers in that, and in
        searches of many sentences.
        """
        if not self.first and use_add_norm(y, training=self.training):
            skipped, output = x.flatten(0, -2), y.flatten(0, -2)  # (N, D) each
            p = self.dropout.p if self.training else 0.0
            return add_norm(skipped, output, self._norm_params, bias=bias, dropout=p).view(y.shape)
        y = y if bias is None else y + bias
        x = x + (self.dropout(y) if self.training else y)
        return x if self.first else self.norm(x)

    def fused_post(self, x: Tensor, y: DeferredBias, to: "Residual") -> tuple[Tensor, Tensor]:
        """What comes out of packed `x` and `y` (N, D), and what `to`, the next, gives its own."""
        if self.training and self.first and use_kernel("fused_add_norm", y.output):
            p = self.dropout.p
            return add_norm_with_sum(x, y.output, to._norm_params, bias=y.bias, dropout=p)
        x = self.post(x, *y)
        return x, to.pre(x)

    @property
    def _norm_params(self) -> LayerNormParams:
        return LayerNormParams(self.norm.weight, self.norm.bias, self.norm.eps)
