"""Attention maps and search trees for the terminal."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.console import Console, ConsoleOptions, RenderResult
from rich.style import Style
from rich.text import Text
from rich.tree import Tree
from torch import Tensor

from regard.decoding.tracing.search_tree import ROOT, SearchTree

CELL_WIDTH = 3  # terminal columns of a weight; a character is about twice as high as wide
MAX_HEADER_WIDTH = 24
VIRIDIS = [(68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37)]
NEGATIVE = [(24, 26, 30), (20, 60, 110), (60, 120, 190), (150, 200, 240)]  # from 0 on: blue
POSITIVE = [(24, 26, 30), (120, 66, 10), (200, 120, 30), (250, 210, 150)]  # from 0 on: orange
ANSWER_STYLE, OTHER_STYLE = "bold", "dim"


class Glyphs(NamedTuple):
    """The characters that a map is drawn with."""

    shades: tuple[str, ...]
    corner: str
    line: str
    cut: str
    bar: str


UNICODE = Glyphs((" · ", "░░░", "▒▒▒", "▓▓▓", "███"), "╭", "│", "…", "█")
ASCII = Glyphs((" . ", ":::", "+++", "***", "###"), "+", "|", "~", "#")


class HeatMap:
    """A rich renderable of `weights` (T, S) between the words of `rows` and `columns`.

    The brightest cell is the largest weight, printed below; the console decides on colours, shades
    or ASCII. A map that is too wide continues in a second panel. If weights are not `normalized`,
    the scale has both signs, and shades of negative weights begin with a minus.
    """

    def __init__(
        self,
        weights: Tensor,
        rows: Sequence[str],
        columns: Sequence[str],
        *,
        normalized: bool = True,
    ) -> None:
        size = len(rows), len(columns)
        if weights.shape != size:
            raise ValueError(f"weights must be rows by columns, {size}, got {tuple(weights.shape)}")
        self.weights, self.rows, self.columns = weights, rows, columns
        self.normalized = normalized

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        coloured = console.color_system in ("256", "truecolor") and not console.no_color
        glyphs = ASCII if options.ascii_only else UNICODE
        weights = self.weights.double().nan_to_num()  # (T, S)
        weights = weights.clamp_min(0) if self.normalized else weights
        peak = float(weights.abs().max()) if weights.numel() else 0.0
        style = cell_style if self.normalized else signed_style
        labels = [_label(row, max(8, options.max_width // 3), glyphs) for row in self.rows]
        margin = max(map(cell_len, labels), default=0) + 1
        width_left = max(options.max_width - margin, CELL_WIDTH + 3)
        header_width = min(MAX_HEADER_WIDTH, width_left - CELL_WIDTH)
        headers = [_label(column, header_width, glyphs) for column in self.columns]
        values: list[list[float]] = (weights / (peak or 1.0)).tolist()
        for panel in _panels(headers, width_left):
            for number, header in enumerate(headers[panel]):  # with a line down to its column
                lines = f" {glyphs.line} " * number + f" {glyphs.corner} "
                yield _no_wrap(" " * margin, Text.assemble((lines, "dim"), header))
            for label, fractions in zip(labels, values, strict=True):
                aligned = " " * (margin - 1 - cell_len(label)) + label + " "
                yield _no_wrap(
                    aligned, _cells(fractions[panel], glyphs, style if coloured else None)
                )
            yield Text("")
        last = 10 if coloured else len(glyphs.shades) - 1
        first = 0 if self.normalized else -last
        steps = [step / last for step in range(first, last + 1)]
        ramp = _cells(steps, glyphs, style if coloured else None)
        low = "0" if self.normalized else f"{-peak:.2f}"
        scale = Text.assemble(f"{low} ", ramp, f" {peak:.2f}")
        yield _no_wrap(" " * min(margin, options.max_width - scale.cell_len), scale)


def _cells(
    fractions: Iterable[float], glyphs: Glyphs, style: Callable[[float], Style] | None
) -> Text:
    """A row of weights as fractions of the largest: in a `style`, or in shades without trailing
    spaces.
    """
    if style is not None:
        return Text.assemble(*((" " * CELL_WIDTH, style(fraction)) for fraction in fractions))
    return Text("".join(_shade(fraction, glyphs) for fraction in fractions).rstrip())


def _shade(fraction: float, glyphs: Glyphs) -> str:
    level = round(abs(fraction) * (len(glyphs.shades) - 1))
    shade = glyphs.shades[level]
    return f"-{shade[1:]}" if fraction < 0 and level else shade


def _label(word: str, width: int, glyphs: Glyphs) -> str:
    """The word in at most `width` cells, without characters that move the cursor."""
    shown = "".join(map(_printable, word))
    if glyphs is ASCII:
        shown = shown.encode("ascii", "replace").decode()
    return shown if cell_len(shown) <= width else set_cell_size(shown, width - 1) + glyphs.cut


def cell_style(fraction: float) -> Style:
    """The viridis colour at `fraction` from 0 to 1, with a readable text colour."""
    return _ramp_style(VIRIDIS, fraction)


def signed_style(fraction: float) -> Style:
    """Blue for a negative `fraction`, from -1 on, orange for a positive one, up to 1."""
    return _ramp_style(NEGATIVE if fraction < 0 else POSITIVE, abs(fraction))


def _ramp_style(colours: Sequence[tuple[int, int, int]], fraction: float) -> Style:
    place = min(fraction, 1.0) * (len(colours) - 1)
    low = min(int(place), len(colours) - 2)
    red, green, blue = (
        round(a + (b - a) * (place - low))
        for a, b in zip(colours[low], colours[low + 1], strict=True)
    )
    background = Color.from_triplet(ColorTriplet(red, green, blue))
    return Style(color="black" if fraction > 0.5 else "bright_white", bgcolor=background)


class WeightBars:
    """A rich renderable of `weights` (S,): a line for each label, with a bar and the number.

    Bars of negative weights extend to the left of the origin.
    """

    def __init__(self, weights: Tensor, labels: Sequence[str]) -> None:
        if weights.shape != (len(labels),):
            raise ValueError(f"expected {len(labels)} weights, one a label, got {weights.shape}")
        self.weights, self.labels = weights, labels

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        glyphs = ASCII if options.ascii_only else UNICODE
        values: list[float] = self.weights.double().nan_to_num().tolist()
        labels = [_label(label, max(8, options.max_width // 3), glyphs) for label in self.labels]
        margin = max(map(cell_len, labels), default=0)
        numbers = [f"{value:.4f}" for value in values]
        room = options.max_width - margin - max(map(len, numbers), default=0) - 3
        span = max([*values, 0.0]) - min([*values, 0.0]) or 1.0
        origin = round(-min([*values, 0.0]) / span * max(room, 0))
        for label, value, number in zip(labels, values, numbers, strict=True):
            length = round(abs(value) / span * max(room, 0))
            bar = glyphs.bar * length
            drawn = (
                f"{bar:>{origin}}{glyphs.line}"
                if value < 0
                else f"{'':>{origin}}{glyphs.line}{bar}"
            )
            style = "blue" if value < 0 else "yellow" if origin else ""
            aligned = " " * (margin - cell_len(label)) + label
            yield _no_wrap(f"{aligned} ", Text.assemble((drawn, style), f" {number}"))


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
    rank of a result. Hypotheses that were dropped at once are only counted.
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
