"""Convolutions over positions, for a whole sequence or for one step."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Convolution(nn.Module):
    """Each position made from `kernel` positions around it, `dilation` apart.

        y_t = W [x_{t-r}; x_{t-r+dilation}; …; x_{t-r+(kernel-1)·dilation}] + b

    Beyond its ends a sequence is zeros, and so must be whatever is padding: then it changes
    nothing. A *gated* convolution makes two of every output, and the one decides how much of the
    other gets through: A ∘ σ(B), a gated linear unit (Dauphin et al. 2016).

    The neighbours are laid side by side for one matrix product. Vectors thus stay in the last
    axis, as everywhere else, and a step is the same product as a sequence.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, dilation: int = 1, gated: bool = False
    ) -> None:
        super().__init__()
        self.inputs, self.dilation, self.gated = inputs, dilation, gated
        self.span = (kernel - 1) * dilation
        """How far the last position that is looked at lies from the first."""
        self.linear = nn.Linear(kernel * inputs, 2 * outputs if gated else outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, inputs) -> (B, T, outputs)"""
        left_padding = self.left_padding
        padded = F.pad(x, (0, 0, left_padding, self.span - left_padding))  # (B, T + span, inputs)
        starts = range(0, self.span + 1, self.dilation)
        windows = torch.cat([padded[:, i : i + x.shape[1]] for i in starts], -1)
        return self._project(windows)  # (B, T, kernel * inputs) -> (B, T, outputs)

    @property
    def left_padding(self) -> int:
        """How far back a position looks, the r of the formula: as far as ahead, or one less."""
        return self.span // 2

    def _project(self, windows: Tensor) -> Tensor:
        y: Tensor = self.linear(windows)
        return F.glu(y) if self.gated else y


class CausalConvolution(Convolution):
    """A *masked* convolution: none of the positions looked at is later than the one made.

    Of the past a step needs the last `span` positions, a window that does not grow: every output
    costs the same.
    """

    @property
    def left_padding(self) -> int:
        return self.span

    def zero_state(self, sentences: int) -> Tensor:
        """The window before anything was read: (B, 1, span, inputs)."""
        return self.linear.bias.new_zeros(sentences, 1, self.span, self.inputs)

    def step(self, x: Tensor, window: Tensor) -> tuple[Tensor, Tensor]:
        """What is made at the newest position `x` (B, K, inputs): (B, K, outputs); and the window.

        `window` is (B, K, span, inputs), of what came before, the newest last.
        """
        extended = torch.cat([window, x[:, :, None]], 2)  # (B, K, span + 1, inputs)
        windows = extended[:, :, :: self.dilation].flatten(2)  # (B, K, kernel * inputs)
        return self._project(windows), extended[:, :, 1:]
