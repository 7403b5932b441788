"""The figure of a comparison of a task: scores of systems, with their seeds and intervals."""

from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from regard.comparison.results import CorpusResults, TaskResults
from regard.evaluation.scores import SIGNIFICANCE_LEVEL, is_significant
from regard.inspection.plots.fonts import style_text

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#00875F",
    "#C2578F",
    "#000000",
    "#B07800",
    "#3E9BD6",
    "#882255",
    "#6B7F1A",
    "#332288",
    "#8C5A3C",
    "#707070",
)
"""Colours after Okabe and Ito 2008 and Tol 2021, dark enough for text on white; markers differ
too."""
MARKERS = "osD^vp<>h*XP"
INK, PALE, FAINT = "0.25", "0.45", "0.9"
LABEL_SIZE = 10.0  # of the names of systems, in points
STYLE: dict[Any, Any] = {
    "font.size": LABEL_SIZE,
    "axes.edgecolor": "0.6",
    "axes.linewidth": 0.6,
    "text.parse_math": False,
}
ROW_HEIGHT, PANEL_WIDTH = 0.42, 4.6  # in inches
MARGINS = (1.9, 0.3, 0.75, 0.7)  # left of the first panel, right, above, below


def plot_scores(results: TaskResults) -> Figure:
    """A panel for each corpus, with a line for each system: mean, 95% interval, seeds."""
    measured = [corpus for corpus in results.corpora if corpus.score]
    left, right, above, below = MARGINS
    lines = max(len(corpus.systems) for corpus in measured)
    width = len(measured) * (left + PANEL_WIDTH + right)
    height = above + below + ROW_HEIGHT * lines
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), facecolor="white")
        for number, corpus in enumerate(measured):
            first = number * (left + PANEL_WIDTH + right) + left
            box = (first / width, below / height, PANEL_WIDTH / width, ROW_HEIGHT * lines / height)
            _draw_panel(figure.add_axes(box), corpus)
    return figure


def _draw_panel(axes: Axes, corpus: CorpusResults) -> None:
    for number, system in enumerate(corpus.systems):
        if system.score is None or system.interval is None:
            continue
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        low, high = system.interval.low, system.interval.high
        axes.hlines(number, low, high, color=colour, linewidth=2.2, alpha=0.45)
        seeds = [row.score.value for row in system.rows]
        axes.plot(seeds, [number] * len(seeds), "|", color=colour, markersize=9, alpha=0.8)
        axes.plot(system.score.mean, number, marker, color=colour, markersize=7)
        if system.significance is not None and is_significant(system.significance.p_value):
            axes.annotate("*", (high, number), (4, -3), textcoords="offset points", color=colour)
    reference = next((one for one in corpus.systems if one.label == corpus.against), None)
    if reference is not None and reference.score is not None:
        axes.axvline(reference.score.mean, color=PALE, linewidth=0.8, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(corpus.systems)), [system.label for system in corpus.systems])
    axes.set_ylim(len(corpus.systems) - 0.5, -0.5)  # the first on top
    axes.margins(x=0.08)
    for text in axes.get_yticklabels():
        style_text(text, LABEL_SIZE, INK)
    axes.set_title(corpus.corpus, loc="left", fontsize=12, fontweight="bold", color=INK, pad=20)
    note = f"mean, 95% interval, seeds; * p < {SIGNIFICANCE_LEVEL} against {corpus.against}"
    axes.text(0, 1.02, note, transform=axes.transAxes, fontsize=9, color=PALE)
    axes.set_xlabel(f"{corpus.score} on {corpus.examples:,} examples of {corpus.split}", color=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(which="both", length=0, labelcolor=INK)
    axes.grid(axis="x", color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)
