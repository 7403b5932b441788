"""Dropout of whole vectors, and of the same units at all positions of a sequence."""

import torch
from torch import Tensor, nn

from regard.kernels.dropout import Dropout, apply_dropout


class LockedDropout(Dropout):
    """Drops the same units of a vector at all positions of a row (Gal and Ghahramani 2016)."""

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)"""
        if not self.training or self.p == 0:
            return x
        return x * apply_dropout(torch.ones_like(x[:, :1]), self.p)


class VectorDropout(Dropout):
    """Drops whole vectors, such as those of some words."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        if not self.training or self.p == 0:
            return x
        return x * apply_dropout(torch.ones_like(x[..., :1]), self.p)


class DroppedEmbedding(nn.Embedding):
    """Vectors of tokens; in training, those of some tokens of the vocabulary are zeros in the whole
    batch (Gal and Ghahramani 2016), and the others are scaled up.
    """

    def __init__(self, size: int, width: int, *, dropout: float) -> None:
        super().__init__(size, width)
        self.dropout = Dropout(dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """(..., T) -> (..., T, D)"""
        vectors = super().forward(ids)
        if not self.training or self.dropout.p == 0:
            return vectors
        scales = self.dropout(self.weight.new_ones(self.num_embeddings))  # (V,)
        return vectors * scales[ids][..., None]
