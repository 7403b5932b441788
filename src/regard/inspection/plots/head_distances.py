"""How far the heads of a model look, as a figure."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from regard.inspection.attention_distance import MAX_DISTANCE, measure_distances
from regard.inspection.plots.figure import FRAME_WIDTH, ColourScale, FigureLayout
from regard.inspection.plots.fonts import style_text
from regard.inspection.plots.theme import ThemeName, get_theme
from regard.inspection.recording.attention_map import AttentionMaps

CELL_WIDTH, HEAD_HEIGHT = 0.2, 0.2
"""Inches of a distance and of a head."""
LAYER_GAP, GAP = 0.14, 0.35
"""Inches between layers and between panels."""
POINT_PANEL_WIDTH = 1.7
"""Inches of a panel of points."""
CAPTION_OFFSET = 0.1
"""Inches from a panel up to what it says of itself."""
DISTANCE_ORIGIN = {
    "cross": "the diagonal",
    "encoder": "the word that looks",
    "decoder": "the word to come",
}


def plot_distances(
    attentions: Sequence[AttentionMaps], *, title: str = "", theme: ThemeName = "light"
) -> Figure:
    """A row for each head: where it looks, how far on the average, and at how many words at once.

    All attention is of one part of one model, in some sentences.
    """
    found = measure_distances(attentions)
    layers, heads = found.mean.shape
    columns, block = CELL_WIDTH * (2 * MAX_DISTANCE + 1), HEAD_HEIGHT * heads
    width, height = (
        columns + 2 * (GAP + POINT_PANEL_WIDTH),
        layers * (block + LAYER_GAP) - LAYER_GAP,
    )
    layout = FigureLayout(width, height, get_theme(theme))
    scale = ColourScale(layout.theme.sequential, float(found.shares.max()))
    tops = [layer * (block + LAYER_GAP) for layer in range(layers)]
    for layer, top in enumerate(tops):
        axes = layout.place(0, top, columns, block)
        layout.draw_heatmap(axes, found.shares[layer], scale, num_cells=found.shares.numel())
        names = [f"{layer}.{head}" for head in range(heads)]
        axes.set_yticks([head + 0.5 for head in range(heads)], names)
        axes.tick_params(axis="y", length=0, labelsize=8, labelcolor=layout.theme.foreground)
    _label_distances(axes)
    middles = [top + HEAD_HEIGHT * (head + 0.5) for top in tops for head in range(heads)]
    _draw_points(layout, columns + GAP, middles, found.mean, "how far")
    _draw_points(layout, width - POINT_PANEL_WIDTH, middles, found.spread, "at how many at once")
    canvas = layout.canvas()
    caption = f"{found.part} attention by distance from {DISTANCE_ORIGIN[found.part]}"
    style_text(canvas.text(0, -CAPTION_OFFSET, caption), 8, layout.theme.muted)
    layout.write_title(canvas, title, above=24)
    count = f"{len(attentions):,} sentence{'s' * (len(attentions) > 1)}"
    note = (
        f"rows: layer.head; {count}; distances beyond {MAX_DISTANCE} are counted as {MAX_DISTANCE}"
    )
    style_text(canvas.text(0, height + 0.4, note), 8, layout.theme.muted)
    layout.add_colourbar(scale, gap=0.25)
    return layout.figure


def _label_distances(axes: Axes) -> None:
    """Write distances below the columns."""
    ticks = range(-MAX_DISTANCE, MAX_DISTANCE + 1, 5)
    names = [f"{distance:+d}".replace("-", "−") if distance else "0" for distance in ticks]
    axes.set_xticks([distance + MAX_DISTANCE + 0.5 for distance in ticks], names)
    axes.tick_params(axis="x", length=2, width=FRAME_WIDTH, labelsize=7)


def _draw_points(
    layout: FigureLayout, left: float, middles: Sequence[float], numbers: Tensor, caption: str
) -> None:
    """A point for each head, as far to the right as its number says."""
    axes = layout.place(left, 0, POINT_PANEL_WIDTH, layout.height)
    values = numbers.flatten().tolist()
    axes.hlines(middles, 0, values, color=layout.theme.border, linewidth=FRAME_WIDTH)
    axes.plot(values, middles, "o", color=layout.theme.accent, markersize=4, clip_on=False)
    axes.set(ylim=(layout.height, 0), xlim=(0, 1.08 * max(values) or 1), yticks=[])
    axes.xaxis.set_major_locator(MaxNLocator(4))
    layout.label(axes)
    axes.spines[["top", "right"]].set_visible(False)
    place = axes.text(0, -CAPTION_OFFSET, caption)
    style_text(place, 8, layout.theme.muted)
