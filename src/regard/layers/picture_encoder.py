"""Pixels or precomputed regions of a picture -> the regions that a decoder attends to."""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.layers.efficientnet import scale_pixels

NORM_GROUPS = 8


class PictureShape(NamedTuple):
    """The shape of a model's input for each picture."""

    rows: int  # of regions, or of pixels
    columns: int
    channels: int  # the width of a region's vector, or the number of colours of a pixel


class PictureEncoder(nn.Module, ABC):
    """The values of `Pixels` or `Regions` -> regions (B, S, D)."""

    width: int  # D
    grid: tuple[int, int]  # rows and columns of the S regions, row by row

    @abstractmethod
    def forward(self, values: Tensor) -> Tensor:
        """(B, ...) -> (B, S, D)"""


class FrozenRegions(PictureEncoder):
    """Regions that a frozen CNN has computed, each brought to zero mean and unit variance."""

    def __init__(self, shape: PictureShape) -> None:
        super().__init__()
        self.grid, self.width = (shape.rows, shape.columns), shape.channels
        self.norm = nn.LayerNorm(shape.channels)

    def forward(self, values: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, D)"""
        regions: Tensor = self.norm(values.to(self.norm.weight.dtype))
        return regions


def layer_widths(width: int, layers: int) -> list[int]:
    """The channels of each layer of a `SmallCnn`: the last has `width`, each earlier one half of
    the next.
    """
    return [width >> (layers - 1 - number) for number in range(layers)]


class SmallCnn(PictureEncoder):
    """Convolutions with a stride of 2, learned with the decoder: bytes -> regions.

    Two more channels hold the position of each pixel, from -1 to 1 (Liu et al. 2018, CoordConv):
    without them, a convolution cannot tell left from right.
    """

    def __init__(self, shape: PictureShape, width: int, layers: int) -> None:
        super().__init__()
        self.width = width
        widths = layer_widths(width, layers)
        inputs = [shape.channels + 2, *widths[:-1]]
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 3, stride=2, padding=1)
            for before, after in zip(inputs, widths, strict=True)
        )
        self.norms = nn.ModuleList(nn.GroupNorm(min(NORM_GROUPS, size), size) for size in widths)
        rows, columns = shape.rows, shape.columns
        for _ in range(layers):
            rows, columns = -(-rows // 2), -(-columns // 2)
        self.grid = rows, columns

    def forward(self, values: Tensor) -> Tensor:
        """Bytes (B, C, height, width) -> (B, S, D)"""
        dtype = next(self.parameters()).dtype
        x = scale_pixels(values, dtype)
        down, across = (torch.linspace(-1, 1, n, device=x.device, dtype=dtype) for n in x.shape[2:])
        places = torch.stack(torch.meshgrid(down, across, indexing="ij"))  # (2, height, width)
        places = places.expand(x.shape[0], -1, -1, -1)  # (B, 2, height, width)
        x = torch.cat([x, places], dim=1)  # (B, C + 2, height, width)
        for convolution, norm in zip(self.convolutions, self.norms, strict=True):
            x = F.relu(norm(convolution(x)))
        return x.flatten(2).transpose(1, 2)  # (B, S, D)
