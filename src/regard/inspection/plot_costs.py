"""What each head is worth, as a figure."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from torch import Tensor

from regard.inspection.plot_letters import write
from regard.inspection.plot_sheet import Scale, Sheet
from regard.inspection.plot_theme import ThemeName, theme_of

WIDE, HIGH, GAP = 0.6, 0.36, 0.14
"""Inches that a head takes across and down, and between one part of a model and the next."""


def plot_costs(
    costs: Mapping[str, Tensor],
    *,
    unit: str = "BLEU lost",
    title: str = "",
    theme: ThemeName = "light",
) -> Figure:
    """A panel for each part of a model: its layers (L) from the top down, its heads (H) across.

    All `costs` (L, H) share one scale, which begins at 0: what is gained by a removal is as pale as
    what costs nothing, and its number has a sign.
    """
    colours = theme_of(theme)
    layers, widest = sum(map(len, costs.values())), max(part.shape[1] for part in costs.values())
    sheet = Sheet(WIDE * widest, HIGH * layers + GAP * (len(costs) - 1), colours)
    scale = Scale(colours.ramp, max(float(part.max()) for part in costs.values()))
    top = 0.0
    for name, part in costs.items():
        rows, columns = part.shape
        axes = sheet.place(0, top, WIDE * columns, HIGH * rows)
        sheet.draw_cells(axes, part.clamp_min(0), scale)
        for row, numbers in enumerate(part.tolist()):
            for column, number in enumerate(numbers):
                label = axes.text(column + 0.5, row + 0.5, _number(number), ha="center")
                label.set(va="center_baseline")
                write(label, 8, colours.paper if scale.range(number) > 0.5 else colours.ink)
        sheet.name_rows(axes, [f"{name} {layer}" for layer in range(rows)], fontsize=9)
        if top == 0:
            sheet.name_columns(axes, [f"head {head}" for head in range(columns)], fontsize=9)
            sheet.entitle(axes, title)
        top += HIGH * rows + GAP
    sheet.add_scale(scale, gap=0.3, label=unit)
    return sheet.figure


def _number(cost: float) -> str:
    shown = f"{cost:.1f}"
    return "0" if shown in ("0.0", "-0.0") else shown
