"""What each word looked at, a line for each: for sentences too long for a map."""

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.inspection.plots.figure import FRAME_WIDTH, ColourScale, FigureLayout
from regard.inspection.plots.fonts import (
    baseline_offset,
    is_right_to_left,
    style_text,
    text_width,
    truncate_label,
)
from regard.inspection.plots.theme import ThemeName, get_theme
from regard.inspection.plots.word_lines import MapView, view_map
from regard.inspection.recording.attention_map import AttentionMaps

CELL_WIDTH, ROW_HEIGHT = 0.13, 0.2
"""Inches from weight to weight and from line to line."""
COLUMN_FONT_SIZE, WORD_FONT_SIZE, SHARE_FONT_SIZE = 7.0, 9.5, 7.0
"""Points that the names of columns, the words of lines and their shares are high."""
SPACE = 0.12
"""Inches between the parts of a line."""
GUIDE_EVERY = 5
"""So many lines, and one is drawn across, for the eye to follow."""
MAX_TOP_WORDS, ENOUGH_SHARE, MIN_TOP_WORD_SHARE = 3, 0.8, 0.05
"""A line names this many words at most, until they have this share of what the line looks at, and
none with less than the last."""


class TopWord(NamedTuple):
    """A word that is looked at."""

    column: int
    share: float
    """Of what its row pays to all columns."""


def plot_focus(
    attention: AttentionMaps,
    *,
    layer: int | None = None,
    head: int | None = None,
    title: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """A line for each word that looks: its weights, then the words that it looked at most.

    None stands for the average over layers or heads. The shares are of what a word pays to columns
    that are drawn, less what is parked.
    """
    view, colours = view_map(attention, layer, head), get_theme(theme)
    rows, columns = len(view.rows), len(view.columns)
    layout = FigureLayout(CELL_WIDTH * columns, ROW_HEIGHT * rows, colours)
    axes = layout.place(0, 0, layout.width, layout.height)
    right_to_left = is_right_to_left(view.columns)
    scale = ColourScale(colours.sequential, float(view.weights.max()))
    both = [view.weights, view.is_sink]
    weights, grey = [one_mask.flip(-1) for one_mask in both] if right_to_left else both
    layout.draw_heatmap(axes, weights, scale, grey=grey)
    axes.hlines(range(1, rows), 0, columns, color=colours.background, linewidth=2.5)
    axes.hlines(
        range(GUIDE_EVERY, rows, GUIDE_EVERY),
        0,
        columns,
        color=colours.border,
        linewidth=FRAME_WIDTH,
    )
    _label_axes(layout, axes, view, right_to_left=right_to_left)
    for number, row in enumerate(view.weights.masked_fill(view.is_sink, 0)):
        _write_top_words(layout, axes, number, row, view)
    title, notes = view.title_and_notes(title)
    layout.write_title(axes, title)
    layout.write_notes(axes, *notes)
    return layout.figure


def top_words(weights: Tensor) -> list[TopWord]:
    """The columns that a row of `weights` (S,) looks at most, the first ones first."""
    total = float(weights.sum())
    found: list[TopWord] = []
    if total <= 0:
        return found
    for column in weights.argsort(descending=True, stable=True)[:MAX_TOP_WORDS].tolist():
        share = float(weights[column]) / total
        if share < MIN_TOP_WORD_SHARE or sum(one.share for one in found) >= ENOUGH_SHARE:
            break
        found.append(TopWord(column, share))
    return found


def _label_axes(layout: FigureLayout, axes: Axes, view: MapView, *, right_to_left: bool) -> None:
    """Write the words that look at the left, and those that are looked at above, upright."""
    layout.label_rows(axes, view.rows, fontsize=WORD_FONT_SIZE)
    names = view.columns[::-1] if right_to_left else view.columns
    axes.xaxis.tick_top()
    axes.set_xticks([place + 0.5 for place in range(len(names))], map(truncate_label, names))
    for label in axes.get_xticklabels():
        label.set(rotation=90, va="bottom", ha="center")
        style_text(label, COLUMN_FONT_SIZE, layout.theme.foreground)
    axes.tick_params(axis="x", length=0, pad=3)


def _write_top_words(
    layout: FigureLayout, axes: Axes, number: int, row: Tensor, view: MapView
) -> None:
    """Write the words that a row looked at most, at the right, with their shares."""
    left = SPACE
    for column, share in top_words(row):
        name, share_text = truncate_label(view.columns[column]), f"{share:.0%}"
        for text, fontsize, colour in (
            (name, WORD_FONT_SIZE, layout.theme.foreground),
            (share_text, SHARE_FONT_SIZE, layout.theme.muted),
        ):
            x, y = (
                1 + left / layout.width,
                number + 0.5 + baseline_offset(WORD_FONT_SIZE) / ROW_HEIGHT,
            )
            style_text(
                axes.text(x, y, text, transform=axes.get_yaxis_transform()), fontsize, colour
            )
            left += text_width(text, fontsize) + SPACE / 2
        left += SPACE / 2
