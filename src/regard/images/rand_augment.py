"""RandAugment (Cubuk et al. 2020): random operations on pictures, of fixed or random strength.

Whole batches at once, on any device: each picture draws its own operations, every operation is
computed for all pictures, and each picture selects its own. Shapes are static and nothing
synchronizes with the device, so that a CUDA graph can replay it. Pixels are numbers from 0 to 255.
"""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_MAGNITUDE = 10
FILL = 128.0  # the grey of pixels from outside the picture
MAX_DEGREES, MAX_SHEAR, MAX_SHIFT = 30.0, 0.3, 0.45  # the shift is a share of the side
MAX_BLEND = 0.9  # how far the factors of brightness, colour, contrast, sharpness go from 1
MAX_LOST_BITS = 4  # of posterize
GREY = (0.299, 0.587, 0.114)  # the share of red, green and blue in a grey level (ITU-R 601)
LEVELS = 256

OPERATIONS = (
    "identity", "autocontrast", "equalize", "posterize", "solarize", "brightness", "colour",
    "contrast", "sharpness", "rotate", "shear_x", "shear_y", "shift_x", "shift_y",
)  # fmt: skip
"""The fourteen operations of the paper."""


def rand_augment(
    pixels: Tensor, operations: int, magnitude: float, *, vary: bool = False
) -> Tensor:
    """`pixels` (B, 3, height, width) after `operations` random operations, one after another.

    `magnitude`, from 0 to 10, is their strength, or if they `vary` its maximum; the sign is random.
    """
    batch, device = len(pixels), pixels.device
    for _ in range(operations):
        drawn = torch.randint(len(OPERATIONS), (batch,), device=device)  # (B,)
        strengths = torch.randint(2, (batch,), device=device) * 2.0 - 1  # (B,) the signs
        if vary:
            strengths = strengths * torch.rand(batch, device=device)
        pixels = apply_operations(pixels, drawn, strengths * (magnitude / MAX_MAGNITUDE))
    return pixels


def apply_operations(pixels: Tensor, drawn: Tensor, strengths: Tensor) -> Tensor:
    """Each picture after the operation of its index in `drawn` (B,), with strengths from -1 to 1.

    Operations without a direction, such as posterize, ignore the sign.
    """
    changed, each = pixels, strengths[:, None, None, None]  # (B, 1, 1, 1)
    for name, change in COLOUR_CHANGES.items():
        chosen = drawn == OPERATIONS.index(name)
        changed = torch.where(chosen[:, None, None, None], change(pixels, each), changed)
    return _move(changed, _affine(drawn, strengths))


def autocontrast(pixels: Tensor, _: Tensor) -> Tensor:
    """Each colour stretched to reach from 0 to 255."""
    low, high = pixels.amin((2, 3), keepdim=True), pixels.amax((2, 3), keepdim=True)
    spread = high - low
    return torch.where(spread > 0, (pixels - low) * (255 / spread.clamp(min=1)), pixels)


def equalize(pixels: Tensor, _: Tensor) -> Tensor:
    """Each colour's levels spread so that all are about as frequent."""
    levels = pixels.round().clamp(0, LEVELS - 1).long().flatten(2)  # (B, 3, N)
    counts = torch.zeros(*levels.shape[:2], LEVELS, dtype=torch.long, device=pixels.device)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    below = counts.cumsum(2)  # (B, 3, LEVELS) pixels up to each level
    first = below.gather(2, levels.amin(2, keepdim=True))  # of the darkest level
    total = levels.shape[2]
    spread = (total - first).clamp(min=1)
    table = (below - first).clamp(min=0) * (255 / spread)  # (B, 3, LEVELS)
    uniform = first == total  # all pixels have one level
    equalized = torch.where(uniform, levels.to(table.dtype), table.gather(2, levels))
    return equalized.to(pixels.dtype).view(pixels.shape)


def posterize(pixels: Tensor, strengths: Tensor) -> Tensor:
    """The lowest bits of each pixel set to 0; at most four."""
    step = torch.exp2((strengths.abs() * MAX_LOST_BITS).round())
    return (pixels / step).floor() * step


def solarize(pixels: Tensor, strengths: Tensor) -> Tensor:
    """Pixels above a threshold inverted; the threshold falls from 255 to 0 with the strength."""
    return torch.where(pixels > 255 * (1 - strengths.abs()), 255 - pixels, pixels)


def brightness(pixels: Tensor, strengths: Tensor) -> Tensor:
    return _blend(torch.zeros_like(pixels), pixels, strengths)


def colour(pixels: Tensor, strengths: Tensor) -> Tensor:
    return _blend(_grey(pixels), pixels, strengths)


def contrast(pixels: Tensor, strengths: Tensor) -> Tensor:
    return _blend(_grey(pixels).mean((2, 3), keepdim=True), pixels, strengths)


def sharpness(pixels: Tensor, strengths: Tensor) -> Tensor:
    smooth = F.avg_pool2d(F.pad(pixels, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    return _blend(smooth, pixels, strengths)


Change = Callable[[Tensor, Tensor], Tensor]
COLOUR_CHANGES: dict[str, Change] = {
    "autocontrast": autocontrast,
    "equalize": equalize,
    "posterize": posterize,
    "solarize": solarize,
    "brightness": brightness,
    "colour": colour,
    "contrast": contrast,
    "sharpness": sharpness,
}
"""Operations that leave every pixel in its place: pixels, strengths (B, 1, 1, 1) -> pixels."""


def _blend(degenerate: Tensor, pixels: Tensor, strengths: Tensor) -> Tensor:
    """`pixels` moved away from `degenerate` by positive strengths, towards it by negative ones."""
    return torch.lerp(degenerate.expand_as(pixels), pixels, 1 + MAX_BLEND * strengths).clamp(0, 255)


def _grey(pixels: Tensor) -> Tensor:
    """(B, 3, height, width) -> (B, 1, height, width)"""
    red, green, blue = pixels.unbind(1)
    return (GREY[0] * red + GREY[1] * green + GREY[2] * blue)[:, None]


def _affine(drawn: Tensor, strengths: Tensor) -> Tensor:
    """The matrices (B, 2, 3) from a pixel's place, from -1 to 1, to where it is sampled."""

    def chosen(name: str) -> Tensor:
        """The strength where `name` was drawn, else 0: (B,)."""
        return torch.where(drawn == OPERATIONS.index(name), strengths, 0.0)

    angle = chosen("rotate") * math.radians(MAX_DEGREES)
    cos, sin = angle.cos(), angle.sin()
    across = torch.stack(
        [cos, MAX_SHEAR * chosen("shear_x") - sin, 2 * MAX_SHIFT * chosen("shift_x")], -1
    )
    down = torch.stack(
        [MAX_SHEAR * chosen("shear_y") + sin, cos, 2 * MAX_SHIFT * chosen("shift_y")], -1
    )
    return torch.stack([across, down], 1)


def _move(pixels: Tensor, matrices: Tensor) -> Tensor:
    """`pixels` sampled at the places that `matrices` (B, 2, 3) map theirs to; outside, FILL."""
    places = F.affine_grid(matrices, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels - FILL, places, align_corners=False) + FILL
