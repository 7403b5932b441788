"""Measurements of a run that `regard look --heads`, `--distances` and `--positions` show."""

import time
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch
from matplotlib.figure import Figure
from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from torch import Tensor

from regard.cli.display.console import err, out
from regard.cli.display.progress_bar import LiveProgress, bar_columns
from regard.cli.display.tables import plain_table, significance_note
from regard.errors import SettingsError
from regard.evaluation.scores import is_significant
from regard.inspection.plots.figure import ThemeName
from regard.inspection.plots.heads import (
    HeadDistances,
    measure_distances,
    plot_distances,
    plot_head_costs,
)
from regard.inspection.plots.positions import plot_positions, read_positions, similarity_by_distance
from regard.inspection.plots.terminal import cell_style
from regard.inspection.recording.attention_map import PARTS, Part
from regard.recipes.memory import format_seconds
from regard.tasks.families.answer import Answer
from regard.tasks.translation.measurements.head_importance import AblationResult, HeadImportance
from regard.tasks.translation.pipeline import Translator

SHOWN_DISTANCES = range(-2, 3)  # distances that the table of heads shows
SECONDS_BETWEEN_LINES = 10.0  # of progress in a pipe
SHOWN_OFFSETS = (1, 2, 4, 8, 16, 32)  # distances that the table of position encodings shows


class RunMeasurement(NamedTuple):
    """A measurement in the three forms that a command can show."""

    document: Any  # for --json
    rows: Sequence[RenderableType]  # for the terminal
    draw: Callable[[ThemeName], Figure]


class AblationProgress(LiveProgress):
    """The progress of translating the same sentences without some heads each time: a bar in a
    terminal, lines in a pipe.
    """

    def __init__(self, sentences: int, *, console: Console = err) -> None:
        super().__init__(*bar_columns(), console=console)
        self._sentences = sentences
        self._task = self.add_task("removing heads", total=None)
        self._began = self._last_line = time.monotonic()

    def report(self, done: int, total: int) -> None:
        """Called before each of `total` translations of all sentences, and at the end."""
        self.update(self._task, completed=done, total=total)
        now = time.monotonic()
        if done == 0:
            sentences = f"{self._sentences:,} sentence{'s' if self._sentences > 1 else ''}"
            self._say(f"translating {sentences} {total} times; --limit N takes fewer")
        elif done < total and not self.console.is_terminal:
            if done > 1 and now - self._last_line < SECONDS_BETWEEN_LINES:
                return
            self._last_line = now
            left = format_seconds((now - self._began) / done * (total - done))
            self._say(f"{done} of {total} translations, about {left} left")

    def _say(self, line: str) -> None:
        self.console.print(f"[dim]{line}[/dim]", soft_wrap=True)


def show_positions(translator: Translator, length: int) -> RunMeasurement:
    """The position encodings of a model, and the similarity of their vectors by distance."""
    encodings = read_positions(translator.runs[0].model, length)
    columns = tuple(map(str, SHOWN_OFFSETS))
    table = plain_table(
        "kind",
        "where",
        "vectors",
        *columns,
        title="mean cosine of two positions by distance",
        right=("vectors", *columns),
    )
    document = []
    for encoding in encodings:
        mean = similarity_by_distance(encoding.similarity()).mean
        cosines = [f"{mean[far]:.2f}" if far < len(mean) else "" for far in SHOWN_OFFSETS]
        size = "×".join(map(str, encoding.vectors.shape))
        table.add_row(encoding.kind, escape(", ".join(encoding.modules)), size, *cosines)
        document.append(
            {
                "kind": encoding.kind,
                "where": encoding.modules,
                "places": encoding.positions.tolist(),
                "vectors": encoding.vectors.tolist(),
                "cosine_by_distance": mean.tolist(),
            }
        )
    return RunMeasurement(document, [table], lambda theme: plot_positions(encodings, theme=theme))


def show_distances(answers: Sequence[Answer], part: Part, *, words: bool) -> RunMeasurement:
    """How far away, and how widely, the heads of a part attend in some translations."""
    captures = [answer.attention for answer in answers if answer.attention is not None]
    if not captures:
        raise SettingsError("all sentences are blank: there is nothing to look at")
    attentions = [one.attention(part, words=words) for one in captures]
    found = measure_distances(attentions)
    tensors = {"mean": found.mean, "spread": found.spread, "shares": found.shares}
    document = {"part": found.part} | {name: one.tolist() for name, one in tensors.items()}
    return RunMeasurement(
        document, [_distance_table(found)], lambda theme: plot_distances(attentions, theme=theme)
    )


def _distance_table(found: HeadDistances) -> Table:
    distance_columns = [f"{distance:+d}" if distance else "0" for distance in SHOWN_DISTANCES]
    title = f"{found.part} attention: mean distance, number of words, share by distance"
    numbers = ("away", "at once", *distance_columns)
    table = plain_table("layer.head", *numbers, title=title, right=numbers)
    middle = found.shares.shape[-1] // 2
    for layer, head in product(*map(range, found.mean.shape)):
        shares = [f"{found.shares[layer, head, middle + far]:.0%}" for far in SHOWN_DISTANCES]
        away, at_once = (f"{of[layer, head]:.2f}" for of in (found.mean, found.spread))
        table.add_row(f"{layer}.{head}", away, at_once, *shares)
    return table


def show_head_importance(model: str, found: HeadImportance) -> RunMeasurement:
    """The BLEU lost without each head and without each layer."""
    score, free = found.baseline, len(found.free)
    interval = f" ({score.interval.low:.2f} … {score.interval.high:.2f})" if score.interval else ""
    costliest = max(found.heads, key=lambda one: one.cost)
    rows: list[RenderableType] = [
        f"[bold]{escape(model)}[/bold] on {found.sentences:,} sentences: BLEU {score.value:.2f}"
        f"{interval}  [dim]{escape(score.signature)}[/dim]",
        _cost_table(found),
        significance_note([one.p_value for one in found.removals]),
        f"costliest: {costliest.part} {costliest.layer}.{costliest.head}, without which "
        f"{costliest.changed:.0%} of the translations change, for {costliest.cost:.2f} BLEU",
        f"free to remove, each alone, for at most {found.tolerance:g} BLEU: {free} of "
        f"{len(found.heads)} heads",
    ]
    if found.without_free is not None:
        gained = found.without_free - score.value
        rows.append(f"without these {free} at once: BLEU {found.without_free:.2f} ({gained:+.2f})")
    return RunMeasurement(
        found.to_json(), rows, lambda theme: plot_head_costs(cost_grids(found), theme=theme)
    )


def cost_grids(found: HeadImportance) -> dict[str, Tensor]:
    """The costs of the heads of each part: each (L, H)."""
    heads_of = {part: [one for one in found.heads if one.part == part] for part in PARTS}
    return {
        part: torch.tensor([one.cost for one in heads]).view(heads[-1].layer + 1, -1)  # (L, H)
        for part, heads in heads_of.items()
        if heads
    }


def _cost_table(found: HeadImportance) -> Table:
    """BLEU lost without each head, a row for each layer, and without the whole layer."""
    widest, peak = max(one.head or 0 for one in found.heads), max(one.cost for one in found.heads)
    heads = [f"head {number}" for number in range(widest + 1)]
    columns = [*heads, "whole layer"] if widest else heads  # a single head is its layer
    table = plain_table("", *columns, title="BLEU lost without", gap=1)
    layers: dict[tuple[Part, int], dict[int | None, Text]] = {}
    for one in found.removals:
        layers.setdefault((one.part, one.layer), {})[one.head] = _cost_cell(one, peak)
    for (part, layer), cells in layers.items():
        row = (cells.get(head, "") for head in (*range(widest + 1), None)[: len(columns)])
        table.add_row(f"{part} {layer}", *row)
    return table


def _cost_cell(one: AblationResult, peak: float) -> Text:
    """The cost; in colour, the background of a head is brighter the higher its cost."""
    shown = f"{one.cost:6.2f}{'*' if is_significant(one.p_value) else ' '}"
    if one.head is None or out.color_system not in ("256", "truecolor"):
        return Text(shown)
    return Text(shown, cell_style(max(one.cost, 0) / peak if peak > 0 else 0))
