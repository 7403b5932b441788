"""Token ids -> vectors."""

import math
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Tying = Literal["shared", "target", "separate"]


class TiedEmbeddings(nn.Module):
    """The vectors of source tokens, of target tokens, and of the tokens an output chooses from.

    `shared`: one matrix is all three (Vaswani et al. 2017, section 3.4; needs one vocabulary for
    both languages). `target`: one for the source, one for the target and the output. `separate`:
    three. A matrix is one parameter under one name, whatever its roles, so that it is saved once.
    """

    def __init__(self, source_size: int, target_size: int, width: int, tying: Tying) -> None:
        super().__init__()
        if tying == "shared" and source_size != target_size:
            raise ValueError(
                f"shared embeddings need one vocabulary, got {source_size=} and {target_size=}"
            )
        self.width = width
        self.source = nn.Parameter(torch.empty(source_size, width))
        self.target = None if tying == "shared" else nn.Parameter(torch.empty(target_size, width))
        own = tying == "separate"
        self.output = nn.Parameter(torch.empty(target_size, width)) if own else None
        self.quantized_output: nn.Module | None = (
            None  # a twin of the output's matrix in fewer bits
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal with variance 1 / D: of unit variance once scaled, and fit to make logits."""
        for matrix in self.parameters():
            nn.init.normal_(matrix, std=self.width**-0.5)

    def of_source(self, ids: Tensor) -> Tensor:
        """(B, S) -> (B, S, D), scaled by √D."""
        return F.embedding(ids, self.source) * math.sqrt(self.width)

    def of_target(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T, D), scaled by √D."""
        return F.embedding(ids, self._target) * math.sqrt(self.width)

    def logits(self, features: Tensor) -> Tensor:
        """(..., D) -> (..., V): how well each feature fits each target token."""
        if self.quantized_output is not None:
            read: Tensor = self.quantized_output(features)
            return read
        return F.linear(features, self.outputs)

    @property
    def outputs(self) -> nn.Parameter:
        """The matrix (V, D) that logits are made with."""
        return self._target if self.output is None else self.output

    @property
    def _target(self) -> nn.Parameter:
        return self.source if self.target is None else self.target


class OneHot(nn.Module):
    """Each token a vector of zeros with a single one: what a layer makes of it is all there is."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, ids: Tensor) -> Tensor:
        """(..., T) -> (..., T, V)"""
        zeros = torch.zeros(*ids.shape, self.size, device=ids.device)
        return zeros.scatter_(-1, ids[..., None], 1.0)


def build_embedding(size: int, width: int) -> nn.Module:
    """Learned vectors of `width` for `size` tokens; with a width of 0, one-hot vectors."""
    if not width:
        return OneHot(size)
    return nn.Embedding(size, width)  # of unit variance, as torch draws it
