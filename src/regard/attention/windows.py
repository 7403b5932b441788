"""Attention inside the windows of a picture (Liu et al. 2021, Swin)."""

import torch
from torch import Tensor, nn

from regard.types import PictureWindows

INITIAL_STD = 0.02


def split_windows(x: Tensor, windows: PictureWindows) -> Tensor:
    """Patches (B, T, D), row by row -> those of each window (B W, N, D), where N is size²."""
    rows, columns, size, shift = windows
    x = torch.unflatten(x, 1, (rows, columns))  # (B, rows, columns, D)
    if shift:
        x = x.roll((-shift, -shift), (1, 2))
    x = torch.unflatten(torch.unflatten(x, 2, (-1, size)), 1, (-1, size))  # (B, R, s, C, s, D)
    return x.transpose(2, 3).flatten(3, 4).flatten(0, 2)


def merge_windows(x: Tensor, windows: PictureWindows) -> Tensor:
    """The inverse: (B W, N, D) -> (B, T, D)."""
    rows, columns, size, shift = windows
    x = torch.unflatten(x, 0, (-1, rows // size, columns // size))  # (B, R, C, N, D)
    x = torch.unflatten(x, 3, (size, size)).transpose(2, 3)  # (B, R, s, C, s, D)
    x = x.flatten(3, 4).flatten(1, 2)  # (B, rows, columns, D)
    if shift:
        x = x.roll((shift, shift), (1, 2))
    return x.flatten(1, 2)


def window_patches(windows: PictureWindows) -> Tensor:
    """The number of each patch, row by row in the picture, that a window holds: (W, N)."""
    numbers = torch.arange(windows.rows * windows.columns)
    return split_windows(numbers[None, :, None], windows)[..., 0]


def window_mask(windows: PictureWindows) -> Tensor:
    """Where patches of a window were neighbours before the shift: (W, 1, N, N).

    The shift brings patches of opposite edges into one window; they do not attend to each other.
    """
    edges = [_part(count, windows) for count in (windows.rows, windows.columns)]
    parts = edges[0][:, None] * 3 + edges[1]  # (rows, columns) of the picture that is moved
    unshifted = windows._replace(shift=0)
    cut = split_windows(parts.flatten()[None, :, None], unshifted)[..., 0]  # (W, N)
    return (cut[:, :, None] == cut[:, None, :])[:, None]


def _part(count: int, windows: PictureWindows) -> Tensor:
    """0, 1 or 2 along a side (count,): before the last window, in it, and come from the start."""
    places = torch.arange(count)
    last = (places >= count - windows.size).long()
    return last + (places >= count - windows.shift).long() if windows.shift else last * 0


def place_windows(weights: Tensor, windows: PictureWindows) -> Tensor:
    """The weights (B W, H, N, N) of all windows put back in place: (B, H, T, T), else zeros."""
    patches = window_patches(windows)  # (W, N)
    heads, total = weights.shape[1], windows.rows * windows.columns
    split = torch.unflatten(weights, 0, (-1, len(patches)))  # (B, W, H, N, N)
    placed = weights.new_zeros(len(split), total, total, heads)
    queries, keys = patches[:, :, None], patches[:, None, :]
    placed[:, queries, keys] = split.permute(0, 1, 3, 4, 2)
    return placed.permute(0, 3, 1, 2)


class RelativeBias(nn.Module):
    """A learned number for each head and each distance of two patches in a window, which is added
    to the score: b[y_i - y_j, x_i - x_j] of the table that the paper calls B̂.
    """

    index: Tensor

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty((2 * size - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=INITIAL_STD)
        places = torch.arange(size)
        down, across = (x.flatten() for x in torch.meshgrid(places, places, indexing="ij"))  # (N,)
        distances = (x[:, None] - x + size - 1 for x in (down, across))  # (N, N), from 0
        y, x = distances
        self.register_buffer("index", (y * (2 * size - 1) + x).flatten(), persistent=False)

    def forward(self) -> Tensor:
        """(1, H, N, N)"""
        side = round(len(self.index) ** 0.5)
        return self.table[self.index].view(1, side, side, -1).permute(0, 3, 1, 2)
