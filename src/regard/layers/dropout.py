"""Numbers left out at random, in training."""

from torch import Tensor, nn

from regard.kernels.dropout import apply_dropout


class Dropout(nn.Module):
    """Sets a `share` of all numbers to 0 in training, scales the others up, and is else nothing.

    Srivastava et al. 2014.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p < 1:
            raise ValueError(f"the share to drop must be at least 0 and less than 1, got {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)"""
        return apply_dropout(x, self.p) if self.training else x

    def extra_repr(self) -> str:
        return f"{self.p}"
