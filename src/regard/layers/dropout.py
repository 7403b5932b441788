"""Dropout (Srivastava et al. 2014)."""

from typing import TYPE_CHECKING

from torch import Tensor, nn

from regard.kernels.dropout import apply_dropout


class Dropout(nn.Module):
    """In training, sets each number to 0 with probability `p` and scales up the others."""

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"the share to drop must be at least 0 and less than 1, got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)"""
        return apply_dropout(x, self.p) if self.training else x

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...

    def extra_repr(self) -> str:
        return f"{self.p}"
