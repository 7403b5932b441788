"""What each head is worth, as a figure."""

from collections.abc import Mapping

from matplotlib.figure import Figure
from torch import Tensor

from regard.inspection.plots.figure import ColourScale, FigureLayout
from regard.inspection.plots.fonts import style_text
from regard.inspection.plots.theme import ThemeName, get_theme

CELL_WIDTH, CELL_HEIGHT, PART_GAP = 0.6, 0.36, 0.14
"""Inches that a head takes across and down, and between one part of a model and the next."""


def plot_head_costs(
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
    colours = get_theme(theme)
    layers, widest = sum(map(len, costs.values())), max(part.shape[1] for part in costs.values())
    layout = FigureLayout(
        CELL_WIDTH * widest, CELL_HEIGHT * layers + PART_GAP * (len(costs) - 1), colours
    )
    scale = ColourScale(colours.sequential, max(float(part.max()) for part in costs.values()))
    top = 0.0
    for name, part in costs.items():
        rows, columns = part.shape
        axes = layout.place(0, top, CELL_WIDTH * columns, CELL_HEIGHT * rows)
        layout.draw_heatmap(axes, part.clamp_min(0), scale)
        for row, numbers in enumerate(part.tolist()):
            for column, number in enumerate(numbers):
                label = axes.text(column + 0.5, row + 0.5, _format_cost(number), ha="center")
                label.set(va="center_baseline")
                style_text(
                    label,
                    8,
                    colours.background if scale.range(number) > 0.5 else colours.foreground,
                )
        layout.label_rows(axes, [f"{name} {layer}" for layer in range(rows)], fontsize=9)
        if top == 0:
            layout.label_columns(axes, [f"head {head}" for head in range(columns)], fontsize=9)
            layout.write_title(axes, title)
        top += CELL_HEIGHT * rows + PART_GAP
    layout.add_colourbar(scale, gap=0.3, label=unit)
    return layout.figure


def _format_cost(cost: float) -> str:
    shown = f"{cost:.1f}"
    return "0" if shown in ("0.0", "-0.0") else shown
