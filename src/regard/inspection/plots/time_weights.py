"""The weights of a forecast over time, as a figure: the series above, its weights below."""

from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.inspection.plots.figure import InchFigure, ThemeName, weight_scale

# Lengths are in inches.
STEP_WIDTH, SERIES_HEIGHT, WEIGHTS_HEIGHT, PANEL_GAP = 0.36, 1.5, 1.7, 0.16
MIN_WIDTH = 5.0  # of the title
DIGIT_WIDTH = 0.062  # of a label
BAR_WIDTH = 0.8  # of a time step


@dataclass(frozen=True, eq=False)
class TimeWeights:
    """How a forecast weighs the time steps of a window."""

    values: Tensor  # (S, F) as the model reads them: scaled
    forecast: Tensor  # (F,) scaled
    weights: Tensor  # (S,) of the window's states
    labels: tuple[str, ...]  # the S given numbers, not scaled
    answer: str  # the forecast, not scaled
    normalized: bool  # whether the weights sum to 1; if not, some may be negative

    @property
    def title(self) -> str:
        """The kind of the weights."""
        kind = "a distribution" if self.normalized else "no distribution: their signs count"
        return f"attention over {len(self.labels)} time steps ({kind})"


def plot_time_weights(shown: TimeWeights, *, theme: ThemeName = "light") -> Figure:
    """The window with its forecast as a line, and a bar for the weight of each time step."""
    steps = len(shown.labels)
    width = max(MIN_WIDTH, STEP_WIDTH * (steps + 1))
    figure = InchFigure(width, SERIES_HEIGHT + PANEL_GAP + WEIGHTS_HEIGHT, theme)
    top = figure.add_panel(0, 0, width, SERIES_HEIGHT)
    below = figure.add_panel(0, SERIES_HEIGHT + PANEL_GAP, width, WEIGHTS_HEIGHT)
    for axes in (top, below):
        axes.set(xlim=(-0.6, steps + 0.6), xticks=[])
        axes.spines[["top", "right"]].set_visible(False)
    _draw_series(figure, top, shown)
    _draw_weights(figure, below, shown)
    figure.write_title(top, shown.title)
    return figure


def _draw_series(figure: InchFigure, axes: Axes, shown: TimeWeights) -> None:
    """The numbers of the window, joined by a line, and the forecast as a ring."""
    steps, theme = range(len(shown.labels)), figure.theme
    for column, (line, end) in enumerate(zip(shown.values.T, shown.forecast, strict=True)):
        last, ahead = float(line[-1]), float(end)
        style: dict[str, Any] = {"color": theme.accent, "alpha": 1 / (1 + column)}
        axes.plot(steps, line.tolist(), "o-", linewidth=1.2, markersize=3.5, **style)
        axes.plot([len(steps) - 1, len(steps)], [last, ahead], ":", linewidth=1.2, **style)
        axes.plot(
            [len(steps)], [ahead], "o", markersize=6, fillstyle="none", clip_on=False, **style
        )
    figure.label_axes(axes, down="scaled")
    axes.set_xticks([])


def _draw_weights(figure: InchFigure, axes: Axes, shown: TimeWeights) -> None:
    """A bar for each weight, in the colour of its sign, above the number that it belongs to."""
    steps, theme = len(shown.labels), figure.theme
    scale = weight_scale(theme, shown.weights, normalized=shown.normalized)
    high, low = scale.cmap(0.75), scale.cmap(0.25)
    colours = [high if value >= 0 else low for value in shown.weights.tolist()]
    axes.bar(range(steps), shown.weights.tolist(), BAR_WIDTH, color=colours)
    axes.axhline(0, color=theme.border, linewidth=0.8)
    figure.label_axes(axes, down="weight")
    axes.set_xticks([*range(steps), steps], [*shown.labels, f"→ {shown.answer}"])
    longest = max(map(len, shown.labels))
    fits = (longest + 1) * DIGIT_WIDTH <= axes.get_position().width * figure.width / (steps + 1.2)
    for label in axes.get_xticklabels():
        label.set(rotation=0 if fits else 90, color=theme.foreground, fontsize=7)
    if fits:  # the forecast has room on its right
        axes.get_xticklabels()[-1].set_horizontalalignment("left")
    axes.tick_params(axis="x", length=0)
    if not shown.normalized:
        figure.write_notes(axes, ["orange: above 0, blue: below 0"])
