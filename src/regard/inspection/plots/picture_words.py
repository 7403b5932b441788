"""A picture once for each word of its caption, bright where the word attends; or once for each head
of a classifier, coloured where it attends.
"""

from collections.abc import Sequence

import numpy as np
import torch.nn.functional as F
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray
from torch import Tensor

from regard.images.picture_files import Bytes
from regard.inspection.plots.figure import InchFigure, ThemeName
from regard.inspection.plots.fonts import style_text, truncate_label
from regard.inspection.recording.picture_attention import PictureAttention

PANEL_INCHES, GAP_INCHES, LABEL_INCHES = 1.5, 0.12, 0.26
PANELS_PER_ROW = 6
MAX_WORDS = 60  # only the first words of a longer caption are drawn
DARKEST = 0.25  # the share of brightness that regions without attention keep
PATCH_COLOUR, STRONGEST = "#1f6fd0", 0.82  # as in the viewer; the second is the largest opacity
Pixels = NDArray[np.float64]


def plot_picture_words(
    attention: PictureAttention,
    *,
    layer: int | None = None,
    head: int | None = None,
    theme: ThemeName = "light",
) -> Figure:
    """The picture, then once for each word (Xu et al. 2015, figure 3).

    Each has full brightness at its largest weight; weights are interpolated between regions.
    """
    weights = attention.weights(layer, head)[:MAX_WORDS]  # (T, rows, columns)
    named = list(zip(attention.words, weights, strict=False))
    return plot_picture_panels(attention.pixels, named, theme=theme)


def plot_picture_panels(
    pixels: Bytes, named: Sequence[tuple[str, Tensor]], *, theme: ThemeName = "light"
) -> Figure:
    """The picture, then once for each of some `named` weights (rows, columns), bright where these
    are large.
    """
    bright = [(name, highlight(pixels, seen)) for name, seen in named]
    return _draw_panels([("", pixels / 255), *bright], theme)


def plot_picture_patches(
    pixels: Bytes, named: Sequence[tuple[str, Tensor]], note: str, *, theme: ThemeName = "light"
) -> Figure:
    """The picture, then once for each of some `named` weights (rows, columns): patches with larger
    weights are bluer, which is visible on dark and on bright pictures.
    """
    figure = _draw_panels([("", pixels / 255), *((name, pixels / 255) for name, _ in named)], theme)
    right, bottom = pixels.shape[1] - 0.5, pixels.shape[0] - 0.5
    for axes, (_, seen) in zip(figure.axes[1:], named, strict=True):
        share = (seen / seen.max().clamp(min=1e-12)).sqrt()  # (rows, columns)
        cover = np.empty((*seen.shape, 4))
        cover[..., :3], cover[..., 3] = to_rgb(PATCH_COLOUR), STRONGEST * share.numpy()
        axes.imshow(cover, extent=(-0.5, right, bottom, -0.5), interpolation="nearest")
    last_row = figure.axes[(len(figure.axes) - 1) // PANELS_PER_ROW * PANELS_PER_ROW]
    figure.write_notes(last_row, [note, "blue: looked at, each on a scale of its own"])
    return figure


def _draw_panels(panels: Sequence[tuple[str, Pixels]], theme: ThemeName) -> InchFigure:
    """Named pictures in rows."""
    rows = -(-len(panels) // PANELS_PER_ROW)
    across, down = PANEL_INCHES + GAP_INCHES, PANEL_INCHES + LABEL_INCHES + GAP_INCHES
    width = min(len(panels), PANELS_PER_ROW) * across - GAP_INCHES
    figure = InchFigure(width, rows * down - GAP_INCHES, theme)
    for number, (word, picture) in enumerate(panels):
        row, column = divmod(number, PANELS_PER_ROW)
        top = row * down + LABEL_INCHES
        axes = figure.add_panel(column * across, top, PANEL_INCHES, PANEL_INCHES)
        axes.imshow(picture, interpolation="bilinear")
        axes.set(xticks=[], yticks=[])
        if word:
            label = axes.set_title(truncate_label(word), loc="left", pad=4)
            style_text(label, 11, figure.theme.foreground)
    return figure


def highlight(pixels: Bytes, weights: Tensor) -> Pixels:
    """A picture (size, size, 3) as numbers from 0 to 1, dark where the weights (rows, columns) are
    small.
    """
    size = pixels.shape[0]
    spread = F.interpolate(
        weights[None, None].float(), (size, size), mode="bilinear", align_corners=False
    )[0, 0]
    share = (spread / spread.max().clamp(min=1e-12)).numpy()[..., None]  # (size, size, 1)
    bright: Pixels = pixels / 255 * (DARKEST + (1 - DARKEST) * share)
    return bright
