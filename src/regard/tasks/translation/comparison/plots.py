"""Figures of a comparison of translators: BLEU by source length, and BLEU against costs."""

from collections.abc import Iterator

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from regard.comparison.plots import COLOURS, FAINT, INK, LABEL_SIZE, MARKERS, PALE, STYLE
from regard.comparison.table import format_si
from regard.inspection.plots.fonts import style_text
from regard.tasks.translation.comparison.results import ComparisonResults, SystemResult


def plot_by_length(results: ComparisonResults) -> Figure:
    """BLEU on each quarter of the test sentences, with a line for each system."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _new_axes("BLEU by the length of the source sentence")
        lengths = [quarter.mean_length for quarter in results.quarters]
        lines = []
        for system, colour, marker in _measured_systems(results):
            lines += axes.plot(
                lengths,
                system.by_length,
                label=system.label,
                color=colour,
                marker=marker,
                markersize=6,
                linewidth=1.6,
                linestyle="-" if system.rows[0].attends else (0, (4, 2)),
            )
        names = [f"{quarter}\n{quarter.sentences:,} sent." for quarter in results.quarters]
        axes.set_xticks(lengths, names)
        axes.set_xlabel("words in the source sentence: quarters of the test set", color=INK)
        axes.grid(axis="y", color=FAINT, linewidth=0.8)
        _add_legend(axes, lines)
        _add_footnote(axes, results, "dashed: without attention to the source")
    return figure


def plot_quality_cost(results: ComparisonResults) -> Figure:
    """BLEU against the operations of training: means over seeds, with 95% intervals."""
    with matplotlib.rc_context(STYLE):
        figure, axes = _new_axes("BLEU against the cost of training")
        points: list[Line2D] = []
        costs = []
        for system, colour, marker in _measured_systems(results):
            assert system.bleu is not None  # it was measured
            assert system.interval is not None
            assert system.costs is not None
            flops, interval = system.costs.flops, system.interval
            if not flops:  # imported: its cost is not known
                points.append(
                    axes.axhline(
                        system.bleu.mean, label=system.label, linestyle="dashed", color=colour
                    )
                )
                continue
            costs.append(flops)
            axes.vlines(flops, interval.low, interval.high, color=colour, linewidth=1, alpha=0.5)
            points += axes.plot(
                flops,
                system.bleu.mean,
                label=system.label,
                linestyle="none",
                marker=marker,
                markersize=7,
                color=colour,
                markerfacecolor=colour if system.rows[0].attends else "white",
                markeredgewidth=1.6,
            )
        axes.set_xscale("log")
        axes.margins(x=0.12, y=0.08)
        wide = max(costs, default=0) > 10 * min(costs, default=0)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if wide else MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_si(value)))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel("floating-point operations of the whole training", color=INK)
        axes.grid(color=FAINT, linewidth=0.8)
        _add_legend(axes, points)
        _add_footnote(axes, results, "hollow: without attention to the source")
    return figure


def _measured_systems(results: ComparisonResults) -> Iterator[tuple[SystemResult, str, str]]:
    """The systems that were measured, each with its own colour and marker."""
    for number, system in enumerate(results.standings):
        marker = number + number // len(COLOURS)
        if system.rows:
            yield system, COLOURS[number % len(COLOURS)], MARKERS[marker % len(MARKERS)]


def _new_axes(title: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(7.2, 4.6), facecolor="white")
    axes = figure.add_axes((0.09, 0.14, 0.68, 0.76))
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", color=INK, pad=16)
    axes.set_ylabel("BLEU", color=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", length=0, labelcolor=INK)
    axes.set_axisbelow(True)
    return figure, axes


def _add_legend(axes: Axes, lines: list[Line2D]) -> None:
    """Write the names of systems to the right of the axes, in the order of their last values."""
    ordered = sorted(lines, key=lambda line: float(np.asarray(line.get_ydata())[-1]), reverse=True)
    legend = axes.legend(handles=ordered, loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False)
    for text, line in zip(legend.get_texts(), ordered, strict=True):
        style_text(text, LABEL_SIZE, str(line.get_color()))


def _add_footnote(axes: Axes, results: ComparisonResults, text: str) -> None:
    """Explain how systems without attention are drawn, if there are any."""
    if not all(system.rows[0].attends for system, _, _ in _measured_systems(results)):
        axes.text(0, 1.02, text, transform=axes.transAxes, fontsize=9, color=PALE)
