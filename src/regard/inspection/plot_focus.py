"""What each word looked at, a line for each: for sentences too long for a map."""

from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.inspection.plot_letters import drop, runs_leftwards, shorten, width_of, write
from regard.inspection.plot_sheet import LINE, Scale, Sheet
from regard.inspection.plot_theme import ThemeName, theme_of
from regard.inspection.plot_words import Shown, show
from regard.inspection.record import Attention

CELL, LEADING = 0.13, 0.2
"""Inches from weight to weight and from line to line."""
NAMES, WORDS, SHARES = 7.0, 9.5, 7.0
"""Points that the names of columns, the words of lines and their shares are high."""
SPACE = 0.12
"""Inches between the parts of a line."""
GUIDE = 5
"""So many lines, and one is drawn across, for the eye to follow."""
MOST, ENOUGH, LEAST = 3, 0.8, 0.05
"""A line names this many words at most, until they have this share of what the line looks at, and
none with less than the last."""


class Focus(NamedTuple):
    """A word that is looked at."""

    column: int
    share: float
    """Of what its row pays to all columns."""


def plot_focus(
    attention: Attention,
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
    shown, colours = show(attention, layer, head), theme_of(theme)
    rows, columns = len(shown.rows), len(shown.columns)
    sheet = Sheet(CELL * columns, LEADING * rows, colours)
    axes = sheet.place(0, 0, sheet.width, sheet.height)
    leftwards = runs_leftwards(shown.columns)
    scale = Scale(colours.ramp, float(shown.weights.max()))
    ways = [shown.weights, shown.parked]
    weights, grey = [way.flip(-1) for way in ways] if leftwards else ways
    sheet.draw_cells(axes, weights, scale, grey=grey)
    axes.hlines(range(1, rows), 0, columns, color=colours.paper, linewidth=2.5)
    axes.hlines(range(GUIDE, rows, GUIDE), 0, columns, color=colours.frame, linewidth=LINE)
    _name(sheet, axes, shown, leftwards=leftwards)
    for number, row in enumerate(shown.weights.masked_fill(shown.parked, 0)):
        _tell(sheet, axes, number, row, shown)
    title, notes = shown.entitled(title)
    sheet.entitle(axes, title)
    sheet.remark(axes, *notes)
    return sheet.figure


def focus(weights: Tensor) -> list[Focus]:
    """The columns that a row of `weights` (S,) looks at most, the first ones first."""
    whole = float(weights.sum())
    found: list[Focus] = []
    if whole <= 0:
        return found
    for column in weights.argsort(descending=True, stable=True)[:MOST].tolist():
        share = float(weights[column]) / whole
        if share < LEAST or sum(one.share for one in found) >= ENOUGH:
            break
        found.append(Focus(column, share))
    return found


def _name(sheet: Sheet, axes: Axes, shown: Shown, *, leftwards: bool) -> None:
    """Write the words that look at the left, and those that are looked at above, upright."""
    sheet.name_rows(axes, shown.rows, fontsize=WORDS)
    names = shown.columns[::-1] if leftwards else shown.columns
    axes.xaxis.tick_top()
    axes.set_xticks([place + 0.5 for place in range(len(names))], map(shorten, names))
    for label in axes.get_xticklabels():
        label.set(rotation=90, va="bottom", ha="center")
        write(label, NAMES, sheet.theme.ink)
    axes.tick_params(axis="x", length=0, pad=3)


def _tell(sheet: Sheet, axes: Axes, number: int, row: Tensor, shown: Shown) -> None:
    """Write the words that a row looked at most, at the right, with their shares."""
    left = SPACE
    for column, share in focus(row):
        name, told = shorten(shown.columns[column]), f"{share:.0%}"
        for text, fontsize, colour in (
            (name, WORDS, sheet.theme.ink),
            (told, SHARES, sheet.theme.faint),
        ):
            x, y = 1 + left / sheet.width, number + 0.5 + drop(WORDS) / LEADING
            write(axes.text(x, y, text, transform=axes.get_yaxis_transform()), fontsize, colour)
            left += width_of(text, fontsize) + SPACE / 2
        left += SPACE / 2
