"""How far the heads of a model look, as a figure."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from regard.inspection.distances import REACH, measure_distances
from regard.inspection.plot_letters import write
from regard.inspection.plot_sheet import LINE, Scale, Sheet
from regard.inspection.plot_theme import ThemeName, theme_of
from regard.inspection.record import Attention

CELL, ROW = 0.2, 0.2
"""Inches of a distance and of a head."""
LAYER_GAP, GAP = 0.14, 0.35
"""Inches between layers and between panels."""
SIDE = 1.7
"""Inches of a panel of points."""
ABOVE = 0.1
"""Inches from a panel up to what it says of itself."""
FROM = {"cross": "the diagonal", "encoder": "the word that looks", "decoder": "the word to come"}


def plot_distances(
    attentions: Sequence[Attention], *, title: str = "", theme: ThemeName = "light"
) -> Figure:
    """A row for each head: where it looks, how far on the average, and at how many words at once.

    All attention is of one part of one model, in some sentences.
    """
    found = measure_distances(attentions)
    layers, heads = found.mean.shape
    columns, block = CELL * (2 * REACH + 1), ROW * heads
    width, height = columns + 2 * (GAP + SIDE), layers * (block + LAYER_GAP) - LAYER_GAP
    sheet = Sheet(width, height, theme_of(theme))
    scale = Scale(sheet.theme.ramp, float(found.shares.max()))
    tops = [layer * (block + LAYER_GAP) for layer in range(layers)]
    for layer, top in enumerate(tops):
        axes = sheet.place(0, top, columns, block)
        sheet.draw_cells(axes, found.shares[layer], scale, num_cells=found.shares.numel())
        names = [f"{layer}.{head}" for head in range(heads)]
        axes.set_yticks([head + 0.5 for head in range(heads)], names)
        axes.tick_params(axis="y", length=0, labelsize=8, labelcolor=sheet.theme.ink)
    _number(axes)
    middles = [top + ROW * (head + 0.5) for top in tops for head in range(heads)]
    _draw_points(sheet, columns + GAP, middles, found.mean, "how far")
    _draw_points(sheet, width - SIDE, middles, found.spread, "at how many at once")
    canvas = sheet.canvas()
    said = f"{found.part} attention by distance from {FROM[found.part]}"
    write(canvas.text(0, -ABOVE, said), 8, sheet.theme.faint)
    sheet.entitle(canvas, title, above=24)
    count = f"{len(attentions):,} sentence{'s' * (len(attentions) > 1)}"
    note = f"rows: layer.head; {count}; distances beyond {REACH} are counted as {REACH}"
    write(canvas.text(0, height + 0.4, note), 8, sheet.theme.faint)
    sheet.add_scale(scale, gap=0.25)
    return sheet.figure


def _number(axes: Axes) -> None:
    """Write distances below the columns."""
    far = range(-REACH, REACH + 1, 5)
    names = [f"{distance:+d}".replace("-", "−") if distance else "0" for distance in far]
    axes.set_xticks([distance + REACH + 0.5 for distance in far], names)
    axes.tick_params(axis="x", length=2, width=LINE, labelsize=7)


def _draw_points(
    sheet: Sheet, left: float, middles: Sequence[float], numbers: Tensor, said: str
) -> None:
    """A point for each head, as far to the right as its number says."""
    axes = sheet.place(left, 0, SIDE, sheet.height)
    values = numbers.flatten().tolist()
    axes.hlines(middles, 0, values, color=sheet.theme.frame, linewidth=LINE)
    axes.plot(values, middles, "o", color=sheet.theme.strong, markersize=4, clip_on=False)
    axes.set(ylim=(sheet.height, 0), xlim=(0, 1.08 * max(values) or 1), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(4))
    sheet.label(axes)
    axes.spines[["top", "right"]].set_visible(False)
    place = axes.text(0, -ABOVE, said)
    write(place, 8, sheet.theme.faint)
