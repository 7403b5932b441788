"""Numbers left out at random, in training."""

from torch import Tensor, nn

from regard.attention.dropout import drop


class Dropout(nn.Module):
    """Sets a `share` of all numbers to 0 in training, scales the others up, and is else nothing.

    Srivastava et al. 2014.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f"the share to drop must be at least 0 and less than 1, got {share}")
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """(...) -> (...)"""
        return drop(x, self.share) if self.training else x

    def extra_repr(self) -> str:
        return f"{self.share}"
