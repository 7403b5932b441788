"""Self-attention in the windows of pictures, for training: nothing is split, moved or merged."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.kernels.dispatch import MIN_TILE, launch, next_power_of_two
from regard.types import PictureWindows


class WindowTile(NamedTuple):
    """How windows are divided among programs, of which each handles one head of some windows."""

    warps: int
    programs: int  # at most, for all heads together


TILES = {16: WindowTile(1, 4096), 32: WindowTile(2, 2048), 64: WindowTile(4, 1024)}
"""By places of a window, a power of two: enough programs to fill a large GPU at once, as each also
reads the bias and writes a sum of its gradients."""


def attend_windows(
    stacked: Tensor, bias: Tensor, windows: PictureWindows, *, scale: float
) -> Tensor:
    """softmax(scale Q Kᵀ + bias) V in each window: (B, T, H, K), in the order of the patches.

    `stacked` (B, T, 3, H, K) is the output of the one projection to queries, keys and values of
    patches, row by row, and `bias` (H, N, N) that of N places in a window. If the windows are
    shifted, patches of opposite edges do not attend to each other: `shift_mask` is computed here.
    """
    mixed: Tensor = _AttendWindows.apply(stacked, bias, windows, scale)  # type: ignore[no-untyped-call]
    return mixed


class _AttendWindows(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, stacked: Tensor, bias: Tensor, windows: PictureWindows, scale: float
    ) -> Tensor:
        ctx.bias_dtype, ctx.windows, ctx.scale = bias.dtype, windows, scale
        stacked, bias = stacked.contiguous(), bias.float().contiguous()
        pictures, patches, _, heads, width = stacked.shape
        mixed = stacked.new_empty(pictures, patches, heads, width)
        launch(
            "window_attention", "forward", _grid(stacked, windows),
            stacked, bias, mixed, _num_windows(stacked, windows), scale,
            on=stacked, **_options(stacked, windows),
        )  # fmt: skip
        ctx.save_for_backward(stacked, bias)
        return mixed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        """The gradient of the bias is summed over programs in a fixed order."""
        (stacked, bias), windows = ctx.saved_tensors, ctx.windows
        _, programs = grid = _grid(stacked, windows)
        stacked_grad = torch.empty_like(stacked)
        bias_grads = bias.new_empty(programs, *bias.shape)  # (P, H, N, N)
        launch(
            "window_attention", "backward", grid,
            stacked, bias, grad.contiguous(), stacked_grad, bias_grads,
            _num_windows(stacked, windows), ctx.scale,
            on=stacked, **_options(stacked, windows),
        )  # fmt: skip
        return stacked_grad, bias_grads.sum(0).to(ctx.bias_dtype), None, None


def _num_windows(stacked: Tensor, windows: PictureWindows) -> int:
    """Of all pictures together."""
    rows, columns, size, _ = windows
    return stacked.shape[0] * (rows // size) * (columns // size)


def _tile(windows: PictureWindows) -> int:
    return next_power_of_two(windows.size**2, least=MIN_TILE)


def _grid(stacked: Tensor, windows: PictureWindows) -> tuple[int, int]:
    """Heads, and programs for each: neighbours read neighbouring heads of one window."""
    heads, most = stacked.shape[3], TILES[_tile(windows)].programs
    return heads, min(_num_windows(stacked, windows), max(1, most // heads))


def _options(stacked: Tensor, windows: PictureWindows) -> dict[str, Any]:
    (heads, width), (rows, columns, size, shift) = stacked.shape[3:], windows
    return {
        "ROWS": rows, "COLUMNS": columns, "SIZE": size, "SHIFT": shift, "HEADS": heads,
        "WIDTH": width, "WIDTH_POW2": next_power_of_two(width, least=MIN_TILE),
        "TILE": _tile(windows), "num_warps": TILES[_tile(windows)].warps, "num_stages": 1,
    }  # fmt: skip
