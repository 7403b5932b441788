"""A map of attention in the terminal: in colour where there is colour, in shades where not."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text
from torch import Tensor

CELL_WIDTH = 3
"""Columns of the terminal that a weight takes; letters are about twice as high as wide."""
MAX_HEADER_WIDTH = 24
"""Where a word at the head of a column is cut."""
VIRIDIS = [ColorTriplet(68, 1, 84), ColorTriplet(59, 82, 139), ColorTriplet(33, 145, 140)]
VIRIDIS += [ColorTriplet(94, 201, 98), ColorTriplet(253, 231, 37)]
"""Five points of viridis: even steps to the eye, also of the colour-blind."""


@dataclass(frozen=True)
class Glyphs:
    """The characters that a map is drawn with."""

    shades: tuple[str, ...]
    corner: str
    line: str
    cut: str


UNICODE = Glyphs((" · ", "░░░", "▒▒▒", "▓▓▓", "███"), "╭", "│", "…")
ASCII = Glyphs((" . ", ":::", "+++", "***", "###"), "+", "|", "~")


def heat_map(
    weights: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    title: str = "",
    numbers: bool = False,
) -> "HeatMap":
    """Something for rich to print: `weights` (T, S) between the words of `rows` and `columns`.

    The brightest cell is the largest weight, which the scale below names. With `numbers` each
    cell says its weight in percent. A map that is too wide goes on in a second panel below.
    """
    if weights.shape != (len(rows), len(columns)):
        size = len(rows), len(columns)
        raise ValueError(f"weights must be rows by columns, {size}, got {tuple(weights.shape)}")
    values: list[list[float]] = weights.float().nan_to_num().clamp_min(0).tolist()
    return HeatMap(values, tuple(rows), tuple(columns), title, numbers)


@dataclass(frozen=True)
class HeatMap:
    """What `heat_map` makes; how it looks is decided by the console that prints it."""

    values: list[list[float]]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    title: str
    numbers: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        renderer = _Renderer(
            peak=max((value for row in self.values for value in row), default=0.0),
            coloured=console.color_system in ("256", "truecolor") and not console.no_color,
            numbers=self.numbers,
            glyphs=ASCII if options.ascii_only else UNICODE,
        )
        labels = [renderer.label(row, max(8, options.max_width // 3)) for row in self.rows]
        margin = max((cell_len(label) for label in labels), default=0) + 1
        width_left = max(options.max_width - margin, CELL_WIDTH + 3)
        headers = [
            renderer.label(column, min(MAX_HEADER_WIDTH, width_left - CELL_WIDTH))
            for column in self.columns
        ]
        if self.title:
            yield Text(self.title, style="bold")
        for panel in _panels(headers, width_left):
            for line in renderer.header(headers[panel]):
                yield _no_wrap(" " * margin, line)
            for label, values in zip(labels, self.values, strict=True):
                aligned = " " * (margin - 1 - cell_len(label)) + label + " "
                yield _no_wrap(aligned, renderer.cells(values[panel]))
            yield Text("")
        scale = renderer.scale()
        yield _no_wrap(" " * min(margin, options.max_width - scale.cell_len), scale)


@dataclass(frozen=True)
class _Renderer:
    """How the parts of a map look on one console."""

    peak: float
    coloured: bool
    numbers: bool
    glyphs: Glyphs

    def label(self, word: str, width: int) -> str:
        """The word in at most `width` cells, with nothing in it that would move the cursor."""
        shown = "".join(_printable(character) for character in word)
        if self.glyphs is ASCII:
            shown = shown.encode("ascii", "replace").decode()
        if cell_len(shown) <= width:
            return shown
        return set_cell_size(shown, width - 1) + self.glyphs.cut

    def header(self, headers: Sequence[str]) -> Iterator[Text]:
        """A stair of words: each stands where a line runs down from it to its column."""
        for number, header_text in enumerate(headers):
            lines = f" {self.glyphs.line} " * number + f" {self.glyphs.corner} "
            yield Text.assemble((lines, "dim"), header_text)

    def cells(self, values: Sequence[float]) -> Text:
        """A row of weights; without spaces behind it, unless they are painted."""
        row = Text.assemble(*(self.cell(value) for value in values))
        if not self.coloured:
            row.rstrip()
        return row

    def cell(self, value: float) -> tuple[str, Style]:
        """One weight, three characters wide."""
        fraction = value / self.peak if self.peak else 0.0  # of the largest
        number = f"{100 * value:3.0f}" if self.numbers else ""
        if self.coloured:
            return number or " " * CELL_WIDTH, cell_style(fraction)
        if self.numbers:
            return self.glyphs.shades[0] if number == "  0" else number, Style.null()
        return self.glyphs.shades[round(fraction * (len(self.glyphs.shades) - 1))], Style.null()

    def scale(self) -> Text:
        """From 0 to the largest weight; what the numbers are, where they are all there is."""
        if self.numbers and not self.coloured:
            return Text("percent")
        last = 10 if self.coloured else len(self.glyphs.shades) - 1
        unlabelled = _Renderer(1.0, self.coloured, numbers=False, glyphs=self.glyphs)
        ramp = unlabelled.cells([step / last for step in range(last + 1)])
        return Text.assemble("0 ", ramp, f" {self.peak:.2f}")


def cell_style(fraction: float) -> Style:
    """Readable letters on the colour at `part` of the way from 0 to 1."""
    foreground = "black" if fraction > 0.5 else "bright_white"
    return Style(color=foreground, bgcolor=Color.from_triplet(_colour(fraction)))


def _panels(headers: Sequence[str], width_left: int) -> Iterator[slice]:
    """The columns that stand side by side: as many as have room for their cells and their words."""
    start = 0
    while start < len(headers):
        stop = start + 1
        while (
            stop < len(headers)
            and (stop - start + 1) * CELL_WIDTH + cell_len(headers[stop]) <= width_left
        ):
            stop += 1
        yield slice(start, stop)
        start = stop


def _no_wrap(before: str, line: Text) -> Text:
    """A line that is cut rather than wrapped."""
    return Text.assemble(before, line, no_wrap=True, overflow="crop")


def _printable(character: str) -> str:
    """The letter, if it stands for itself: joiners are dropped and control characters shown."""
    category = unicodedata.category(character)
    if category[0] == "Z":
        return " "
    if category == "Cf":
        return ""
    return "�" if category[0] == "C" else character


def _colour(fraction: float) -> ColorTriplet:
    """The colour at `part` of the way from 0 to 1."""
    place = min(fraction, 1.0) * (len(VIRIDIS) - 1)
    low = min(int(place), len(VIRIDIS) - 2)
    mix = [
        round(a + (b - a) * (place - low))
        for a, b in zip(VIRIDIS[low], VIRIDIS[low + 1], strict=True)
    ]
    return ColorTriplet(*mix)
