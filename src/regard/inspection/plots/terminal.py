"""Attention maps and search trees for the terminal."""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text
from rich.tree import Tree
from torch import Tensor

from regard.decoding.tracing.search_tree import ROOT, SearchTree

CELL_WIDTH = 3
"""Terminal columns of a weight; a character is about twice as high as wide."""
MAX_HEADER_WIDTH = 24
VIRIDIS = [(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)]
ANSWER_STYLE, OTHER_STYLE = "bold", "dim"


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
    """A rich renderable of `weights` (T, S) between the words of `rows` and `columns`.

    The brightest cell is the largest weight, which the scale below names. With `numbers` each cell
    shows its weight in percent. A map that is too wide continues in a second panel below.
    """
    if weights.shape != (len(rows), len(columns)):
        size = len(rows), len(columns)
        raise ValueError(f"weights must be rows by columns, {size}, got {tuple(weights.shape)}")
    values: list[list[float]] = weights.float().nan_to_num().clamp_min(0).tolist()
    return HeatMap(values, tuple(rows), tuple(columns), title, numbers)


@dataclass(frozen=True)
class HeatMap:
    """The renderable of `heat_map`: the console decides on colours, shades or ASCII."""

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
        header_width = min(MAX_HEADER_WIDTH, width_left - CELL_WIDTH)
        headers = [renderer.label(column, header_width) for column in self.columns]
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
    """Renders the parts of a map for one console."""

    peak: float
    coloured: bool
    numbers: bool
    glyphs: Glyphs

    def label(self, word: str, width: int) -> str:
        """The word in at most `width` cells, without characters that move the cursor."""
        shown = "".join(_printable(character) for character in word)
        if self.glyphs is ASCII:
            shown = shown.encode("ascii", "replace").decode()
        if cell_len(shown) <= width:
            return shown
        return set_cell_size(shown, width - 1) + self.glyphs.cut

    def header(self, headers: Sequence[str]) -> Iterator[Text]:
        """The column names, one below the other, each with a line down to its column."""
        for number, header in enumerate(headers):
            lines = f" {self.glyphs.line} " * number + f" {self.glyphs.corner} "
            yield Text.assemble((lines, "dim"), header)

    def cells(self, values: Sequence[float]) -> Text:
        """A row of weights, without trailing spaces unless they are coloured."""
        row = Text.assemble(*(self.cell(value) for value in values))
        if not self.coloured:
            row.rstrip()
        return row

    def cell(self, value: float) -> tuple[str, Style]:
        """One weight, three characters wide."""
        fraction = value / self.peak if self.peak else 0.0
        number = f"{100 * value:3.0f}" if self.numbers else ""
        if self.coloured:
            return number or " " * CELL_WIDTH, cell_style(fraction)
        if self.numbers:
            return self.glyphs.shades[0] if number == "  0" else number, Style.null()
        return self.glyphs.shades[round(fraction * (len(self.glyphs.shades) - 1))], Style.null()

    def scale(self) -> Text:
        """The cells from 0 to the largest weight, or the unit of numbers without colour."""
        if self.numbers and not self.coloured:
            return Text("percent")
        last = 10 if self.coloured else len(self.glyphs.shades) - 1
        unlabelled = _Renderer(1.0, self.coloured, numbers=False, glyphs=self.glyphs)
        ramp = unlabelled.cells([step / last for step in range(last + 1)])
        return Text.assemble("0 ", ramp, f" {self.peak:.2f}")


def cell_style(fraction: float) -> Style:
    """The viridis colour at `fraction` from 0 to 1, with a readable text colour."""
    place = min(fraction, 1.0) * (len(VIRIDIS) - 1)
    low = min(int(place), len(VIRIDIS) - 2)
    red, green, blue = (
        round(a + (b - a) * (place - low))
        for a, b in zip(VIRIDIS[low], VIRIDIS[low + 1], strict=True)
    )
    background = Color.from_triplet(ColorTriplet(red, green, blue))
    return Style(color="black" if fraction > 0.5 else "bright_white", bgcolor=background)


def _panels(headers: Sequence[str], width_left: int) -> Iterator[slice]:
    """Slices of columns whose cells and headers fit side by side."""
    start = 0
    for stop, header in enumerate(headers):
        if stop > start and (stop - start + 1) * CELL_WIDTH + cell_len(header) > width_left:
            yield slice(start, stop)
            start = stop
    if headers:
        yield slice(start, len(headers))


def _no_wrap(before: str, line: Text) -> Text:
    return Text.assemble(before, line, no_wrap=True, overflow="crop")


def _printable(character: str) -> str:
    """The character; a space for any white space, nothing for format characters, � for control."""
    category = unicodedata.category(character)
    if category[0] == "Z":
        return " "
    if category == "Cf":
        return ""
    return "�" if category[0] == "C" else character


def render_tree(tree: SearchTree, pieces: Sequence[str]) -> Tree:
    """A rich renderable of a search: a branch where hypotheses differ, the likeliest first.

    Pieces without an alternative share a line, which ends with the log-probability so far and the
    rank of a result. Hypotheses dropped at once are only counted.
    """
    children: list[list[int]] = [[] for _ in tree.nodes]  # without dropped ones
    for number, node in enumerate(tree.nodes):
        if node.parent is not None and (node.state != "dropped" or number in tree.answers):
            children[node.parent].append(number)
    for siblings in children:
        siblings.sort(key=lambda number: -tree.nodes[number].log_probability)
    dropped = sum(node.state == "dropped" for node in tree.nodes)
    label = Text.assemble(pieces[ROOT], (f"  and {dropped:,} dropped at once", OTHER_STYLE))
    rendered = Tree(label, guide_style=OTHER_STYLE)
    stack = [(rendered, child) for child in reversed(children[ROOT])]
    while stack:
        above, last = stack.pop()
        text = pieces[last]
        while len(children[last]) == 1 and last not in tree.answers:
            [last] = children[last]
            text += pieces[last]
        below = above.add(_tree_line(tree, last, text))
        stack += [(below, child) for child in reversed(children[last])]
    return rendered


def _tree_line(tree: SearchTree, node: int, pieces: str) -> Text:
    text = pieces.replace("▁", " ").strip() or pieces
    line = Text.assemble(text, (f"  {tree.nodes[node].log_probability:.2f}", OTHER_STYLE))
    if node in tree.answers:
        line.stylize(ANSWER_STYLE, 0, len(text))
        line.append(f"  {tree.answers.index(node) + 1}.", ANSWER_STYLE)
    return line
