"""Attention inside the windows of a picture (Liu et al. 2021, Swin)."""

import torch
import torch.nn.functional as F
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
    """The patches of each window, as indices row by row in the picture: (W, N)."""
    numbers = torch.arange(windows.rows * windows.columns)
    return split_windows(numbers[None, :, None], windows)[..., 0]


def shift_mask(windows: PictureWindows) -> Tensor:
    """Which patches of a window may attend to each other: (W, 1, N, N).

    The shift brings patches of opposite edges into one window; they do not attend to each other.
    """
    down, across = (_shift_parts(count, windows) for count in (windows.rows, windows.columns))
    parts = down[:, None] * 3 + across  # (rows, columns) of the shifted picture
    unshifted = windows._replace(shift=0)
    cut = split_windows(parts.flatten()[None, :, None], unshifted)[..., 0]  # (W, N)
    return (cut[:, :, None] == cut[:, None, :])[:, None]


def _shift_parts(count: int, windows: PictureWindows) -> Tensor:
    """The part of each place along a side of the shifted picture: (count,).

    0: before the last window. 1: in it. 2: in it, moved there from the start of the side.
    """
    places = torch.arange(count)
    last = (places >= count - windows.size).long()
    return last + (places >= count - windows.shift).long() if windows.shift else last * 0


def place_windows(weights: Tensor, windows: PictureWindows) -> Tensor:
    """Weights (B, H, T, T) between all patches: `weights` (B W, H, N, N) of windows, else zeros."""
    patches = window_patches(windows)  # (W, N)
    heads, total = weights.shape[1], windows.rows * windows.columns
    split = torch.unflatten(weights, 0, (-1, len(patches)))  # (B, W, H, N, N)
    placed = weights.new_zeros(len(split), total, total, heads)
    queries, keys = patches[:, :, None], patches[:, None, :]
    placed[:, queries, keys] = split.permute(0, 1, 3, 4, 2)
    return placed.permute(0, 3, 1, 2)


class RelativeBias(nn.Module):
    """A learned bias of the scores, for each head and each offset of two patches in a window:
    b[y_i - y_j, x_i - x_j] of the table that the paper calls B̂.
    """

    index: Tensor

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty((2 * size - 1) ** 2, heads))
        nn.init.trunc_normal_(self.table, std=INITIAL_STD)
        places = torch.arange(size)
        down, across = (x.flatten() for x in torch.meshgrid(places, places, indexing="ij"))  # (N,)
        y, x = (x[:, None] - x + size - 1 for x in (down, across))  # (N, N) offsets, from 0
        self.register_buffer("index", (y * (2 * size - 1) + x).flatten(), persistent=False)

    def forward(self) -> Tensor:
        """(1, H, N, N)"""
        side = round(len(self.index) ** 0.5)
        picked = F.embedding(self.index, self.table)  # its backward pass does not sort the indices
        return picked.view(1, side, side, -1).permute(0, 3, 1, 2)
