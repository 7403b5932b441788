"""The attention of a captioner for each word of a caption."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from regard.errors import SettingsError
from regard.images.picture_files import Bytes
from regard.inspection.recording.attention_map import (
    AttentionMaps,
    Axis,
    Part,
    build_attention_maps,
)
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True, eq=False, repr=False)
class PictureAttention:
    """The weights of each word over the regions of the picture that the model saw."""

    maps: AttentionMaps  # (L, H, T, S), a row for each word; the regions row by row
    grid: tuple[int, int]  # rows and columns of regions
    pixels: Bytes  # (size, size, 3) the square that the model saw

    def __repr__(self) -> str:
        rows, columns = self.grid
        return f"<PictureAttention of {len(self.words)} words to {rows} x {columns} regions>"

    @property
    def words(self) -> tuple[str, ...]:
        """The words of the caption."""
        return self.maps.rows.words

    def weights(self, layer: int | None = None, head: int | None = None) -> Tensor:
        """(T, rows, columns) of a layer and head, from 0; None stands for the mean."""
        return self.maps.select(layer, head).view(-1, *self.grid)


def build_picture_attention(
    weights: Mapping[tuple[Part, int], Tensor],
    tokens: Sequence[int],
    tokenizer: Tokenizer,
    grid: tuple[int, int],
    pixels: Bytes,
) -> PictureAttention:
    """The recorded cross attention (1, H, T, S) of each layer, for the ids with EOS of a caption.

    The weights of a word of several tokens are their mean.
    """
    layers = sorted(layer for part, layer in weights if part == "cross")
    if not layers:
        raise SettingsError("the model attends to nothing: there is nothing to look at")
    recorded = torch.stack([weights["cross", layer][0] for layer in layers])  # (L, H, T, S)
    labels = tuple(f"{row},{column}" for row, column in np.ndindex(*grid))
    regions = Axis(labels, labels, tuple(range(len(labels))))
    maps = build_attention_maps("cross", recorded, regions, tokens, tokenizer)
    return PictureAttention(maps.merge_pieces(), grid, pixels)
