"""The confusion matrix of a classifier as a figure."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from regard.evaluation.classification import Confusion
from regard.inspection.plots.figure import InchFigure, ThemeName, colour_scale
from regard.inspection.plots.fonts import MAX_LABEL_WIDTH, truncate_label

# Lengths are in inches, font sizes in points.
CELL_INCHES, MAX_INCHES = 0.46, 30.0
MAX_NUMBERED_CLASSES = 30  # with more classes, the cells have no numbers
DARK_SHARE = 0.5  # of a row: cells with more have light numbers


def plot_confusion(confusion: Confusion, *, theme: ThemeName = "light") -> Figure:
    """A row for each true class, a column for each answer; a cell's colour is its share of the row,
    its number the count of examples.
    """
    counts = torch.from_numpy(confusion.counts)
    totals = counts.sum(1)  # (V,)
    shares = counts / totals.clamp_min(1)[:, None]  # (V, V)
    size = len(counts)
    cell = min(CELL_INCHES, MAX_INCHES / size)
    figure = InchFigure(cell * size, cell * size, theme)
    axes = figure.add_panel(0, 0, figure.width, figure.height)
    scale = colour_scale(figure.theme.sequential, 1.0)
    figure.draw_heatmap(axes, shares, scale)
    font = 10 * cell / CELL_INCHES
    figure.label_columns(axes, confusion.labels, font)
    names = zip(confusion.labels, totals.tolist(), strict=True)
    figure.label_rows(axes, [_row_name(label, total) for label, total in names], font)
    if size <= MAX_NUMBERED_CLASSES:
        _write_counts(figure, counts, shares)
    right, total = int(counts.diagonal().sum()), int(totals.sum())
    figure.write_title(axes, f"{right:,} of {total:,} right")
    notes = "down: the right label, and how many examples have it; across: the model's answer"
    figure.write_notes(axes, [notes])
    figure.add_colourbar(scale, gap=0.2, label="share of row")
    return figure


def _row_name(label: str, total: int) -> str:
    """A label, shortened if it is long, and how many examples have it."""
    count = f" ({total:,})"
    return truncate_label(label, MAX_LABEL_WIDTH - len(count)) + count


def _write_counts(figure: InchFigure, counts: Tensor, shares: Tensor) -> None:
    """The number of examples of each cell that has any."""
    axes, theme = figure.axes[0], figure.theme
    for row, column in counts.nonzero().tolist():
        dark = float(shares[row, column]) > DARK_SHARE
        colour = theme.background if dark else theme.foreground
        place = {"ha": "center", "va": "center", "color": colour}
        figure.write(axes, column + 0.5, row + 0.5, f"{int(counts[row, column]):,}", 8, **place)
