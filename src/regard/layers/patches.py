"""A picture -> the vectors of its patches (Dosovitskiy et al. 2021)."""

import torch
from torch import Tensor, nn

from regard.attention.positions import sinusoid
from regard.kernels.dispatch import HALF_DTYPES, product_dtype
from regard.layers.transformer_parts import apply_norm

Colour = tuple[float, float, float]
MAX_BYTE = 255.0


class PixelScale(nn.Module):
    """Scales bytes, or numbers from 0 to 255, to about zero mean and unit deviation per colour."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, mean: Colour, deviation: Colour) -> None:
        super().__init__()
        for name, values in (("mean", mean), ("deviation", deviation)):
            shaped = torch.tensor(values)[:, None, None] * MAX_BYTE  # (3, 1, 1)
            self.register_buffer(name, shaped, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, height, width) -> the same shape; under autocast in its half precision."""
        scaled = (pixels.to(self.mean.dtype) - self.mean) / self.deviation
        dtype = product_dtype(scaled)
        return scaled.to(dtype) if dtype in HALF_DTYPES else scaled


class PatchEmbedding(nn.Module):
    """Each patch of `size` × `size` pixels as one vector: a linear layer of all its numbers.

    It equals a convolution with stride `size`; as a matrix product it takes less time.
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.size = size
        self.project = nn.Linear(3 * size * size, width)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, height, width) -> (B, S, D), row by row"""
        size = self.size
        x = torch.unflatten(torch.unflatten(pixels, 3, (-1, size)), 2, (-1, size))
        # (B, 3, rows, size, columns, size) -> (B, rows, columns, 3, size, size)
        x = x.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, S, 3 size²)
        vectors: Tensor = self.project(x)
        return vectors


class PatchMerging(nn.Module):
    """Merges each 2 × 2 patches into one of twice the width, by a norm and a linear layer (Swin,
    section 3.1).

    The four are side by side in the order of their columns: those of the left column come first.
    """

    def __init__(self, width: int, columns: int) -> None:
        super().__init__()
        self.columns = columns
        self.norm = nn.LayerNorm(4 * width)
        self.reduce = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T / 4, 2 D)"""
        x = torch.unflatten(x, 1, (-1, 2, self.columns // 2, 2))  # (B, rows, 2, columns, 2, D)
        x = x.permute(0, 1, 3, 4, 2, 5).flatten(3).flatten(1, 2)  # (B, T / 4, 4 D)
        merged: Tensor = self.reduce(apply_norm(self.norm, x))
        return merged.to(self.norm.weight.dtype)  # the precision of the residual stream


def picture_sinusoids(rows: int, columns: int, width: int, device: torch.device) -> Tensor:
    """Sinusoids of each patch's row in the first half of the width, of its column in the second:
    (S, D).
    """
    down, across = (torch.arange(count, device=device) for count in (rows, columns))
    left = sinusoid(down, width // 2).repeat_interleave(columns, 0)
    right = sinusoid(across, width - width // 2).repeat(rows, 1)
    return torch.cat([left, right], 1)
