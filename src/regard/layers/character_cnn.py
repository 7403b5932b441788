"""Vectors of words from their spelling: convolutions over characters, then highway layers."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.multihead import StackedLinear

PADDING, BYTES, WORD_BEGIN, WORD_END = 0, 1, 257, 258  # symbols; a byte b is BYTES + b
NUM_SYMBOLS = 259


def spell_words(words: Sequence[str], length: int) -> Tensor:
    """The symbols (N, `length`) of words: their bytes in UTF-8 between two marks; long words are
    truncated.
    """
    spelled = torch.full((len(words), length), PADDING, dtype=torch.int16)
    for row, word in enumerate(words):
        symbols = [WORD_BEGIN, *(BYTES + b for b in word.encode()[: length - 2]), WORD_END]
        spelled[row, : len(symbols)] = torch.tensor(symbols, dtype=torch.int16)
    return spelled


class Highway(nn.Module):
    """Layers that pass on a part of their input as it is (Srivastava et al. 2015).

    y = g ∘ ReLU(W x + b) + (1 - g) ∘ x, where g = σ(W_g x + b_g)
    """

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        stack = [StackedLinear(width, [width, width]) for _ in range(layers)]
        self.layers = nn.ModuleList(stack)
        for layer in stack:  # gates are nearly closed at first: most of x is passed on
            nn.init.constant_(layer.bias[width:], -2.0)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., D)"""
        for layer in self.layers:
            new, gate = layer(x).chunk(2, -1)
            x = torch.lerp(x, F.relu(new), gate.sigmoid())
        return x


class CharacterCnn(nn.Module):
    """The vector of a word: maxima of convolutions over its symbols (Kim et al. 2016), highway
    layers, and a projection.
    """

    def __init__(
        self, width: int, *, symbol_width: int, filters: Sequence[tuple[int, int]], highways: int
    ) -> None:
        """`filters`: how many symbols each convolution sees, and how many outputs it has."""
        super().__init__()
        self.symbols = nn.Embedding(NUM_SYMBOLS, symbol_width, padding_idx=PADDING)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(symbol_width, count, reach) for reach, count in filters
        )
        total = sum(count for _, count in filters)
        self.highway = Highway(total, highways)
        self.projection = nn.Linear(total, width)

    def forward(self, spelled: Tensor) -> Tensor:
        """Symbols (..., C) -> (..., D)"""
        leading_shape = spelled.shape[:-1]
        x = self.symbols(spelled.flatten(0, -2).int()).transpose(1, 2)  # (N, E, C)
        maxima = [convolution(x).amax(-1) for convolution in self.convolutions]  # (N, ·) each
        vectors: Tensor = self.projection(self.highway(F.relu(torch.cat(maxima, -1))))
        return vectors.view(*leading_shape, -1)
