"""EfficientNet-Lite0: a small pretrained CNN, whose inner states are the regions of a picture.

EfficientNet (Tan and Le 2019) without squeeze-and-excitation and with ReLU6 in place of swish, so
that its numbers stay in a fixed range (Google, 2020: EfficientNet-Lite). Weights as published.
"""

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PICTURE_SIZE = 224  # pixels of a side
PIXEL_MEAN, PIXEL_SCALE = 127.0, 128.0
NORM_EPSILON = 1e-3
STEM_WIDTH, HEAD_WIDTH, NUM_CLASSES = 32, 1280, 1000


class Stage(NamedTuple):
    """Blocks of one width."""

    blocks: int
    kernel: int
    stride: int  # of the first block
    expansion: int  # how many times wider a block is inside
    width: int


STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


class RegionShape(NamedTuple):
    """Regions of a picture, as a grid, and the width of each region's vector."""

    rows: int
    columns: int
    width: int


def scale_pixels(pixels: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Bytes 0 to 255 as numbers from about -1 to 1, in the same shape."""
    return (pixels.to(dtype) - PIXEL_MEAN) / PIXEL_SCALE


def region_shape(block: int) -> RegionShape:
    """The regions after a block, from 0, of a picture of `PICTURE_SIZE`."""
    stride, number = 2, 0
    for stage in STAGES:
        stride *= stage.stride
        number += stage.blocks
        if block < number:
            side = PICTURE_SIZE // stride
            return RegionShape(side, side, stage.width)
    raise ValueError(f"there are blocks 0 to {number - 1}, got {block}")


class SameConvolution(nn.Conv2d):
    """A convolution padded to ⌈size / stride⌉ outputs, as TensorFlow's "SAME": where the padding is
    odd, the right and the bottom get one more.
    """

    def __init__(
        self, inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1
    ) -> None:
        super().__init__(inputs, outputs, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, height, width) -> (B, outputs, ⌈height / stride⌉, ⌈width / stride⌉)"""
        kernel, stride = self.kernel_size[0], self.stride[0]
        down, across = (max(kernel - (size % stride or stride), 0) for size in x.shape[2:])
        if down == across and down % 2 == 0:
            return F.conv2d(x, self.weight, None, stride, down // 2, 1, self.groups)
        sides = (across // 2, across - across // 2, down // 2, down - down // 2)
        return F.conv2d(F.pad(x, sides), self.weight, None, stride, 0, 1, self.groups)


def batch_norm(width: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(width, eps=NORM_EPSILON)


class InvertedResidual(nn.Module):
    """Widen, convolve each channel by itself, narrow; plus the input where shapes allow it."""

    def __init__(self, inputs: int, stage: Stage, *, stride: int) -> None:
        super().__init__()
        inner = inputs * stage.expansion
        if stage.expansion > 1:
            self.expand_conv, self.bn0 = SameConvolution(inputs, inner, 1), batch_norm(inner)
        self.depthwise_conv = SameConvolution(
            inner, inner, stage.kernel, stride=stride, groups=inner
        )
        self.bn1 = batch_norm(inner)
        self.project_conv = SameConvolution(inner, stage.width, 1)
        self.bn2 = batch_norm(stage.width)
        self.expands = stage.expansion > 1
        self.adds_input = stride == 1 and inputs == stage.width

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs, height, width) -> (B, outputs, height / stride, width / stride)"""
        y = F.relu6(self.bn0(self.expand_conv(x)), inplace=True) if self.expands else x
        y = F.relu6(self.bn1(self.depthwise_conv(y)), inplace=True)
        narrow: Tensor = self.bn2(self.project_conv(y))
        return x + narrow if self.adds_input else narrow


class EfficientNetLite0(nn.Module):
    """Stem, blocks 0 to 15, head. It is frozen, and always in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem = SameConvolution(3, STEM_WIDTH, 3, stride=2)
        self.bn0 = batch_norm(STEM_WIDTH)
        blocks, inputs = [], STEM_WIDTH
        for stage in STAGES:
            for number in range(stage.blocks):
                stride = stage.stride if number == 0 else 1
                blocks.append(InvertedResidual(inputs, stage, stride=stride))
                inputs = stage.width
        self.blocks = cast(Sequence[InvertedResidual], nn.ModuleList(blocks))
        self.conv_head = SameConvolution(inputs, HEAD_WIDTH, 1)
        self.bn1 = batch_norm(HEAD_WIDTH)
        self.fc = nn.Linear(HEAD_WIDTH, NUM_CLASSES)
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> "EfficientNetLite0":
        """Stay in evaluation mode: batch norms keep the statistics that they were loaded with."""
        return super().train(False)

    def regions(self, pixels: Tensor, block: int) -> Tensor:
        """The states after a block, row by row: bytes (B, 3, 224, 224) -> (B, S, D)."""
        return self._states(pixels, block).flatten(2).transpose(1, 2)

    def logits(self, pixels: Tensor) -> Tensor:
        """Scores of the classes of ImageNet: bytes (B, 3, 224, 224) -> (B, 1000)."""
        x = self._states(pixels, len(self.blocks) - 1)
        x = F.relu6(self.bn1(self.conv_head(x)))  # (B, 1280, 7, 7)
        logits: Tensor = self.fc(x.mean((2, 3)))
        return logits

    def _states(self, pixels: Tensor, last: int) -> Tensor:
        """(B, 3, height, width) -> (B, D, rows, columns), after the block `last`."""
        x = scale_pixels(pixels, self.fc.weight.dtype)
        x = F.relu6(self.bn0(self.conv_stem(x)), inplace=True)
        for block in self.blocks[: last + 1]:
            x = block(x)
        return x
