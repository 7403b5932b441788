"""What goes around each sub-layer of a Transformer."""

from typing import Literal

from torch import Tensor, nn

from regard.kernels.available import suits
from regard.kernels.linear import Bare
from regard.kernels.norm import Norm, add_norm, add_then_norm, suits_norm
from regard.layers.dropout import Dropout

NormPlace = Literal["post", "pre"]


class Residual(nn.Module):
    """A way past a sub-layer f, dropout behind it, and a norm on the one side or the other.

    `post`: norm(x + f(x)) (Vaswani et al. 2017). `pre`: x + f(norm(x)), which trains without
    warm-up and in deeper stacks (Xiong et al. 2020).
    """

    def __init__(self, width: int, place: NormPlace, dropout: float) -> None:
        super().__init__()
        self.first = place == "pre"
        self.norm = nn.LayerNorm(width)
        self.dropout = Dropout(dropout)

    def enter(self, x: Tensor) -> Tensor:
        """What the sub-layer is given for `x` (..., D)."""
        return self.norm(x) if self.first else x

    def leave(self, x: Tensor, y: Tensor, bias: Tensor | None = None) -> Tensor:
        """What comes out, where the sub-layer made `y` of `x`, its `bias` (D,) yet to be added.

        On a GPU, one kernel does it in training in half precision, and answers in that, and in
        searches of many sentences.
        """
        if not self.first and suits_norm(y, training=self.training):
            past, made = x.flatten(0, -2), y.flatten(0, -2)  # (N, D) each
            share = self.dropout.share if self.training else 0.0
            return add_norm(past, made, self._parts, bias=bias, dropout=share).view(y.shape)
        y = y if bias is None else y + bias
        x = x + (self.dropout(y) if self.training else y)
        return x if self.first else self.norm(x)

    def hand_over(self, x: Tensor, y: Bare, to: "Residual") -> tuple[Tensor, Tensor]:
        """What comes out of packed `x` and `y` (N, D), and what `to`, the next, gives its own."""
        if self.training and self.first and suits("norm", y.made):
            share = self.dropout.share
            return add_then_norm(x, y.made, to._parts, bias=y.bias, dropout=share)
        x = self.leave(x, *y)
        return x, to.enter(x)

    @property
    def _parts(self) -> Norm:
        return Norm(self.norm.weight, self.norm.bias, self.norm.eps)
