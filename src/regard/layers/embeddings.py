"""Token ids -> vectors."""

import torch
from torch import Tensor, nn


class OneHot(nn.Module):
    """One-hot vectors of tokens."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, ids: Tensor) -> Tensor:
        """(..., T) -> (..., T, V)"""
        zeros = torch.zeros(*ids.shape, self.size, device=ids.device)
        return zeros.scatter_(-1, ids[..., None], 1.0)


def build_embedding(size: int, width: int) -> nn.Module:
    """Vectors of `width` for `size` tokens, with unit variance; for a width of 0, one-hot
    vectors.
    """
    return nn.Embedding(size, width) if width else OneHot(size)
