"""Convolutions over positions, for a whole sequence or for one step."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.multihead import StackedLinear


class Convolution(nn.Module):
    """Each output is a linear function of `kernel` positions around it, `dilation` apart.

        y_t = W [x_{t-r}; x_{t-r+dilation}; …; x_{t-r+(kernel-1)·dilation}] + b

    Beyond its ends a sequence is zeros, and padding must be zeros too. A *gated* convolution
    computes y = [A; B] and returns A ∘ σ(B), a gated linear unit (Dauphin et al. 2016).
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, dilation: int = 1, gated: bool = False
    ) -> None:
        super().__init__()
        self.inputs, self.dilation, self.gated = inputs, dilation, gated
        self.span = (kernel - 1) * dilation  # from the first to the last position of a window
        self.linear: nn.Linear = (
            StackedLinear(kernel * inputs, [outputs, outputs])
            if gated
            else nn.Linear(kernel * inputs, outputs)
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, inputs) -> (B, T, outputs)"""
        left_padding = self.left_padding
        padded = F.pad(x, (0, 0, left_padding, self.span - left_padding))  # (B, T + span, inputs)
        starts = range(0, self.span + 1, self.dilation)
        windows = torch.cat([padded[:, i : i + x.shape[1]] for i in starts], -1)
        return self._project(windows)  # (B, T, kernel * inputs) -> (B, T, outputs)

    @property
    def left_padding(self) -> int:
        """The r of the formula: as many positions as after it, or fewer by one."""
        return self.span // 2

    def _project(self, windows: Tensor) -> Tensor:
        y: Tensor = self.linear(windows)
        return F.glu(y) if self.gated else y


class CausalConvolution(Convolution):
    """A convolution that sees no later positions: a step needs the last `span` positions."""

    @property
    def left_padding(self) -> int:
        return self.span

    def zero_state(self, sentences: int) -> Tensor:
        """The window before the first position: (B, 1, span, inputs)."""
        return self.linear.bias.new_zeros(sentences, 1, self.span, self.inputs)

    def advance(self, x: Tensor, window: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """`step` where there is a window; else a whole sequence."""
        return (self.forward(x), None) if window is None else self.step(x, window)

    def step(self, x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        """(B, K, inputs) -> (B, K, outputs), with the next `window` (B, K, span, inputs)."""
        extended = torch.cat([window, x[:, :, None]], 2)  # (B, K, span + 1, inputs)
        windows = extended[:, :, :: self.dilation].flatten(2)  # (B, K, kernel * inputs)
        return self._project(windows), extended[:, :, 1:]
