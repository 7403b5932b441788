"""Drawings of the systems in SVG: what is read at the bottom, what is written on top.

Every drawing has the same marks: cells are vectors, thin arrows are what a network computes step
by step or layer by layer, blue lines are attention, the wider the more weight. Colours come from
the page's style sheet (`system-*` in `site.css`), so that one drawing serves both themes and paper.
"""

from collections.abc import Callable, Sequence
from html import escape
from itertools import pairwise
from math import hypot

WIDTH, HEIGHT = 190, 104
CELL_WIDTH, CELL_HEIGHT, FLAT = 18, 10, 7  # of a cell; flat ones are for deep stacks
COLUMNS = [27, 61, 95, 129, 163]  # the middle of each cell in a row of five
TOP, BOTTOM = 26, 78  # the middle of the rows that write and that read
FOCUS = 2  # the column whose attention is drawn
LOOK = [0.03, 0.32, 0.04, 0.09, 0.52]  # how *not* looks at the source
SOURCE = ["Elle", "ne", "la", "visite", "pas"]
TARGET = ["She", "does", "not", "visit", "it"]
GAP = 1.5  # between the end of a line and the cell it leads to

Point = tuple[float, float]


class Drawing:
    """An SVG picture that grows mark by mark."""

    def __init__(self, height: float = CELL_HEIGHT) -> None:
        self._marks, self.half = list[str](), height / 2  # of a cell

    def svg(self, label: str) -> str:
        """The picture; `label` says in words what it shows."""
        frame = f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label)}"'
        return f'<svg class="system-drawing" {frame}>{"".join(self._marks)}</svg>'

    def cell(self, x: float, y: float, kind: str = "", *, text: str = "", width: float = 0) -> None:
        """A vector around (x, y)."""
        width = width or CELL_WIDTH
        left, top = x - width / 2, y - self.half
        size = f'width="{width:g}" height="{2 * self.half:g}"'
        self._add("rect", f'x="{left:g}" y="{top:g}" {size} rx="2"', f"cell {kind}")
        if text:
            self.text(x, y + 2.2, text, "inside")

    def square(self, x: float, y: float, side: float, kind: str = "") -> None:
        """A square with its corner at (x, y), of a picture."""
        self._add("rect", f'x="{x:g}" y="{y:g}" width="{side:g}" height="{side:g}"', f"cell {kind}")

    def dot(self, x: float, y: float) -> None:
        """A sum of what attention found."""
        self._add("circle", f'cx="{x:g}" cy="{y:g}" r="3"', "sum")

    def text(self, x: float, y: float, text: str, kind: str = "") -> None:
        """A word, centred at x."""
        self._add("text", f'x="{x:g}" y="{y:g}" text-anchor="middle"', kind, escape(text))

    def line(self, start: Point, end: Point, kind: str = "flow", *, curve: float = 0) -> None:
        """A line, bent by so much at its middle."""
        self._add("path", f'd="{_path(start, end, curve)}"', kind)

    def arrow(self, start: Point, end: Point, kind: str = "flow", *, curve: float = 0) -> None:
        """The same with a head."""
        self.line(start, end, kind, curve=curve)
        (x0, y0), (x1, y1) = _middle(start, end, 2 * curve), end
        length = hypot(x1 - x0, y1 - y0) or 1
        dx, dy = (x1 - x0) / length, (y1 - y0) / length
        back = (x1 - 3.2 * dx, y1 - 3.2 * dy)
        sides = [(back[0] - 1.5 * dy * s, back[1] + 1.5 * dx * s) for s in (1, -1)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (end, *sides))
        self._add("polygon", f'points="{points}"', f"{kind} head")

    def look(self, start: Point, end: Point, weight: float, *, curve: float = 0) -> None:
        """A line of attention."""
        shape = f'd="{_path(start, end, curve)}" stroke-width="{0.5 + 4 * weight:.2f}"'
        self._add("path", f'{shape} opacity="{min(1, 0.3 + 1.2 * weight):.2f}"', "look")

    # -- what several drawings have ----------------------------------------------------------

    def words(self, y: float, words: Sequence[str]) -> None:
        """A word for each column."""
        for x, word in zip(COLUMNS, words, strict=True):
            self.text(x, y, word)

    def row(self, y: float, kind: str = "", *, focus: int | None = None) -> None:
        """A cell for each column, one of them in focus."""
        for number, x in enumerate(COLUMNS):
            self.cell(x, y, f"{kind} focus" if number == focus else kind)

    def chain(self, y: float, *, leftwards: bool = False) -> None:
        """A recurrent layer: from each cell of a row to the next."""
        half = CELL_WIDTH / 2 + GAP
        for a, b in pairwise(COLUMNS):
            ends = ((b - half, y), (a + half, y)) if leftwards else ((a + half, y), (b - half, y))
            self.arrow(*ends)

    def both_ways(self, y: float) -> None:
        """A recurrent layer that reads from the left and from the right."""
        self.row(y)
        self.chain(y - self.half / 2)
        self.chain(y + self.half / 2, leftwards=True)

    def rise(self, low: float, high: float, columns: Sequence[float] = COLUMNS) -> None:
        """From each cell of a row to the one above it."""
        for x in columns:
            self.arrow((x, low - self.half), (x, high + self.half + GAP))

    def look_at_source(self, to: Point, y: float = BOTTOM) -> None:
        """Attention to all cells of the row at `y`, which comes together at `to`."""
        for x, weight in zip(COLUMNS, LOOK, strict=True):
            self.look((x, y - self.half), to, weight)

    def _add(self, tag: str, attributes: str, kind: str, content: str = "") -> None:
        names = " ".join(f"system-{name}" for name in kind.split())
        self._marks.append(f'<{tag} class="{names}" {attributes}>{content}</{tag}>')


def _middle(start: Point, end: Point, curve: float) -> Point:
    """The point halfway, moved by `curve` to the side."""
    (x0, y0), (x1, y1) = start, end
    length = hypot(x1 - x0, y1 - y0) or 1
    side = (-(y1 - y0) / length, (x1 - x0) / length)
    return (x0 + x1) / 2 + curve * side[0], (y0 + y1) / 2 + curve * side[1]


def _path(start: Point, end: Point, curve: float) -> str:
    x, y = _middle(start, end, 2 * curve)
    curve = f"Q{x:.1f} {y:.1f} " if curve else "L"
    return f"M{start[0]:.1f} {start[1]:.1f}{curve}{end[0]:.1f} {end[1]:.1f}"


def _translation() -> Drawing:
    """A new drawing with the words of both sides."""
    drawing = Drawing()
    drawing.words(TOP - 14, TARGET)
    drawing.words(HEIGHT - 7, SOURCE)
    return drawing


def draw_rnn() -> Drawing:
    drawing = _translation()
    drawing.row(BOTTOM)
    drawing.chain(BOTTOM)
    drawing.row(TOP, "target")
    drawing.chain(TOP)
    drawing.cell(COLUMNS[-1], BOTTOM, "focus")
    drawing.arrow((COLUMNS[-1], BOTTOM - 6), (COLUMNS[0], TOP + 6.5), "strong")
    drawing.text(132, 48, "one vector", "note")
    return drawing


def draw_rnnsearch() -> Drawing:
    drawing = _translation()
    meet = (COLUMNS[FOCUS], 47.0)
    drawing.look_at_source(meet)
    drawing.both_ways(BOTTOM)
    drawing.row(TOP, "target", focus=FOCUS)
    drawing.chain(TOP)
    drawing.line((COLUMNS[FOCUS - 1], TOP + 5), (meet[0] - 3, meet[1] - 1), "query", curve=-4)
    drawing.arrow((meet[0], meet[1] - 3), (meet[0], TOP + 6.5), "strong")
    drawing.dot(*meet)
    drawing.text(47, 47, "the state before asks", "note")
    return drawing


def draw_luong() -> Drawing:
    drawing = _translation()
    meet = (COLUMNS[FOCUS] + 17, 47.0)
    drawing.look_at_source(meet)
    drawing.row(BOTTOM)
    drawing.chain(BOTTOM)
    drawing.row(TOP + 8, "target", focus=FOCUS)
    drawing.chain(TOP + 8)
    drawing.line((COLUMNS[FOCUS] + 3, TOP + 13), (meet[0] - 3, meet[1] - 1), "query", curve=3)
    drawing.arrow((meet[0], meet[1] - 3), (COLUMNS[FOCUS] + 6, TOP - 4), "strong", curve=8)
    drawing.arrow((COLUMNS[FOCUS], TOP + 3), (COLUMNS[FOCUS], TOP - 3.5))
    drawing.cell(COLUMNS[FOCUS], TOP - 7, "focus", text="tanh")
    drawing.arrow((COLUMNS[FOCUS] + 9, TOP - 7), (COLUMNS[FOCUS + 1] - 4, TOP + 1.5), curve=-3)
    drawing.dot(*meet)
    drawing.text(62, 50, "the state now asks", "note")
    return drawing


def draw_show_attend_tell() -> Drawing:
    drawing = Drawing()
    drawing.words(TOP - 14, ["a", "dog", "on", "a", "boat"])
    meet = (COLUMNS[1], 46.0)
    side, left, top = 9.0, 120.0, 48.0
    for row in range(5):
        for column in range(5):
            x, y = left + side * column, top + side * row
            far = hypot(row - 2.4, column - 1.2)
            weight = max(0.02, 0.42 - 0.22 * far)
            drawing.square(x, y, side, "lit" if far < 1 else ("half" if far < 1.7 else ""))
            if far < 1.7:
                drawing.look((x, y + side / 2), meet, weight)
    drawing.row(TOP, "target", focus=1)
    drawing.chain(TOP)
    drawing.line((COLUMNS[0], TOP + 5), (meet[0] - 3, meet[1] - 1), "query", curve=4)
    drawing.arrow((meet[0], meet[1] - 3), (meet[0], TOP + 6.5), "strong")
    drawing.dot(*meet)
    drawing.text(52, 78, "regions of a picture", "note")
    drawing.text(52, 86, "in the place of words", "note")
    return drawing


def draw_deep_att() -> Drawing:
    drawing = Drawing(FLAT)
    drawing.words(HEIGHT - 2, SOURCE)
    rows, top = [90, 75, 60], 18
    meet = (COLUMNS[FOCUS], 40.0)
    drawing.look_at_source(meet, rows[-1])
    for number, y in enumerate(rows):
        drawing.row(y)
        drawing.chain(y, leftwards=bool(number % 2))
    for low, high in pairwise(rows):
        drawing.rise(low, high)
    for x in COLUMNS:
        drawing.line((x + 9, rows[0]), (x + 9, rows[-1]), "past", curve=-5)
    drawing.row(top, "target", focus=FOCUS)
    drawing.chain(top)
    drawing.words(9, TARGET)
    drawing.line((COLUMNS[FOCUS - 1], top + 3.5), (meet[0] - 3, meet[1] - 1), "query", curve=-3)
    drawing.arrow((meet[0], meet[1] - 3), (meet[0], top + 5), "strong")
    drawing.dot(*meet)
    return drawing


def draw_gnmt() -> Drawing:
    drawing = Drawing(FLAT)
    drawing.words(HEIGHT - 2, SOURCE)
    low, middle, high = 90, 76, 62
    meet = (COLUMNS[FOCUS] + 17, 48.0)
    drawing.look_at_source(meet, high)
    drawing.both_ways(low)
    for y in (middle, high):
        drawing.row(y)
        drawing.chain(y)
    drawing.rise(low, middle)
    drawing.rise(middle, high)
    for x in COLUMNS:
        drawing.line((x + 9, middle), (x + 9, high), "past", curve=-4)
    for y in (33, 17):
        drawing.row(y, "target", focus=FOCUS)
        drawing.chain(y)
        drawing.arrow((meet[0], meet[1] - 3), (COLUMNS[FOCUS] + 8, y + 4), "strong", curve=3)
    drawing.rise(33, 17)
    drawing.line((COLUMNS[FOCUS - 1], 37), (meet[0] - 3, meet[1]), "query", curve=4)
    drawing.dot(*meet)
    drawing.words(9, TARGET)
    return drawing


def draw_bytenet() -> Drawing:
    drawing = Drawing(5)
    xs, last = [23 + 18 * n for n in range(9)], 6
    rows = [88, 72, 56, 40, 26, 12]  # three of the encoder, upon which three of the decoder stand
    reaches = [(), (-1, 0, 1), (-2, 0, 2), (0,), (-1, 0), (-2, 0)]  # of each row in the one below
    seen: list[set[int]] = [set() for _ in rows]
    seen[-1] = {last}
    for level in range(len(rows) - 1, 0, -1):
        kind = "strong" if level == 3 else "flow"
        for at in seen[level]:
            below = {at + offset for offset in reaches[level]} & set(range(len(xs)))
            seen[level - 1] |= below
            for one in sorted(below):
                ends = (xs[one], rows[level - 1] - 2.5), (xs[at], rows[level] + 2.5)
                drawing.line(*ends, kind)
    for level, y in enumerate(rows):
        for number, x in enumerate(xs):
            kind = "target" if level >= 3 else ""
            drawing.cell(x, y, f"{kind} focus" if number in seen[level] else kind, width=11)
    drawing.text(95, HEIGHT - 3, "convolutions reach 1, then 2 columns, then 4 …", "note")
    return drawing


def draw_convs2s() -> Drawing:
    drawing = Drawing(FLAT)
    drawing.words(HEIGHT - 2, SOURCE)
    low, high, first, second = 90, 70, 44, 18
    _convolve(drawing, low, high, causal=False)
    for x, one, two in zip(COLUMNS, LOOK, [0.05, 0.55, 0.05, 0.15, 0.2], strict=True):
        drawing.look((x, high - 3.5), (COLUMNS[FOCUS], first + 3.5), one)
        drawing.look((x, high - 3.5), (COLUMNS[FOCUS] + 9, second + 3.5), two, curve=5)
    _convolve(drawing, first, second, causal=True)
    for y in (low, high):
        drawing.row(y)
    for y in (first, second):
        drawing.row(y, "target", focus=FOCUS)
    drawing.words(9, TARGET)
    return drawing


def _convolve(drawing: Drawing, low: float, high: float, *, causal: bool) -> None:
    """Each cell of a row sees three of the row below: its neighbours, or those before it."""
    for at, x in enumerate(COLUMNS):
        for before in (at - 2, at - 1, at) if causal else (at - 1, at, at + 1):
            if 0 <= before < len(COLUMNS):
                drawing.line((COLUMNS[before], low - drawing.half), (x, high + drawing.half))


def draw_moe() -> Drawing:
    drawing = Drawing()
    drawing.words(HEIGHT - 7, SOURCE)
    drawing.row(BOTTOM, focus=FOCUS)
    drawing.chain(BOTTOM)
    x, gates = COLUMNS[FOCUS], [0, 0.35, 0, 0, 0.65, 0]
    for number, gate in enumerate(gates):
        at = 25 + 28 * number
        if gate:
            drawing.look((x, BOTTOM - 5), (at, 53), gate)
            drawing.look((at, 41), (x, 20), gate)
        drawing.cell(at, 47, "focus" if gate else "absent", text=f"{gate:.2f}" if gate else "0")
    drawing.cell(x, 15, "focus")
    drawing.text(32, 64, "a gate chooses", "note")
    drawing.text(146, 17, "2 of 6 experts compute", "note")
    return drawing


def draw_transformer() -> Drawing:
    drawing = Drawing(FLAT)
    drawing.words(7, TARGET)
    drawing.words(HEIGHT - 1, SOURCE)
    top, bottom = 32, 72
    for at, x in enumerate(COLUMNS):
        for other in range(at):
            far = at - other
            weight, curve = 0.26 / far**2, 3.2 + 1.6 * far
            drawing.look((x, bottom + 3.5), (COLUMNS[other], bottom + 3.5), weight, curve=-curve)
            drawing.look((x, top - 3.5), (COLUMNS[other], top - 3.5), weight, curve=curve)
    matches = [[0], [1, 4], [1, 4], [3], [2]]
    for at, found in enumerate(matches):
        for number, x in enumerate(COLUMNS):
            weight = 0.34 / len(found) if number in found else 0.01
            drawing.look((x, bottom - 3.5), (COLUMNS[at], top + 3.5), weight)
    drawing.row(bottom)
    drawing.row(top, "target")
    return drawing


def draw_feedback() -> Drawing:
    drawing = Drawing()
    rows, memory = [82, 64, 46], 20
    drawing.words(HEIGHT - 4, TARGET)
    for x in COLUMNS[:4]:
        for y in rows:
            drawing.line((x + 9, y - 2), (x + 13, memory + 5), "past", curve=2)
    for x, weight in zip(COLUMNS[:4], [0.1, 0.2, 0.3, 0.5], strict=True):
        for y in rows:
            drawing.look((x + 11, memory + 5), (COLUMNS[4], y - 5), weight / 2)
    for y in rows:
        drawing.row(y, "target", focus=4)
    for low, high in pairwise(rows):
        drawing.rise(low, high)
    for x in COLUMNS[:4]:
        drawing.cell(x + 11, memory, "lit")
    drawing.text(83, 10, "one memory of all layers, written step by step", "note")
    return drawing


def draw_gpt() -> Drawing:
    drawing = Drawing()
    drawing.words(HEIGHT - 7, ["To", "be", ",", "or", "not"])
    drawing.words(TOP - 11, ["be", ",", "or", "not", "to"])
    for at, x in enumerate(COLUMNS):
        for before in range(at + 1):
            weight = 0.35 if at - before < 2 else 0.1
            drawing.look((COLUMNS[before], BOTTOM - 5), (x, TOP + 5), weight)
    drawing.row(BOTTOM)
    drawing.row(TOP, "target", focus=4)
    return drawing


def draw_bert() -> Drawing:
    drawing = Drawing()
    drawing.words(HEIGHT - 7, ["To", "be", "[MASK]", "not", "to"])
    for at, x in enumerate(COLUMNS):
        for other, below in enumerate(COLUMNS):
            weight = 0.4 if at == FOCUS and abs(at - other) == 1 else 0.08
            drawing.look((below, BOTTOM - 5), (x, TOP + 5), weight)
    drawing.row(BOTTOM)
    drawing.cell(COLUMNS[FOCUS], BOTTOM, "absent")
    drawing.row(TOP, "target", focus=FOCUS)
    drawing.text(COLUMNS[FOCUS], TOP - 11, "or")
    return drawing


def draw_vit() -> Drawing:
    drawing = Drawing()
    side, lit = 11.0, {(1, 1), (1, 2), (2, 1), (2, 2), (0, 2)}
    for row in range(4):
        for column in range(4):
            kind = "lit" if (row, column) in lit else ""
            drawing.square(8 + 12.5 * column, 30 + 12.5 * row, side, kind)
    drawing.arrow((62, 54), (76, 54))
    xs = [86 + 17 * n for n in range(6)]
    for number, (x, weight) in enumerate(zip(xs, [0.05, 0.1, 0.45, 0.3, 0.05, 0.3], strict=True)):
        drawing.look((x, 66), (xs[0], 39), weight)
        kind = "target" if number == 0 else ("lit" if weight >= 0.3 else "")
        drawing.cell(x, 71, kind, width=13, text="c" if number == 0 else "")
        drawing.cell(x, 34, "target focus" if number == 0 else "target", width=13)
    drawing.arrow((xs[0], 29), (xs[0], 19))
    drawing.text(xs[0] + 1, 14, "“dog”")
    drawing.text(128, 90, "a class token, and patches as words", "note")
    return drawing


def draw_swin() -> Drawing:
    drawing = Drawing()
    side = 9.0
    for left, shift in ((14.0, 0), (104.0, 2)):
        for row in range(8):
            for column in range(8):
                near = (column + shift) // 4 == 1 and (row + shift) // 4 == 1
                kind = "lit" if near else ""
                drawing.square(left + side * column, 14 + side * row, side, kind)
        for cut in (4 - shift, 8 - shift):
            if 0 < cut < 8:
                at = side * cut
                drawing.line((left + at, 14), (left + at, 14 + 8 * side), "border")
                drawing.line((left, 14 + at), (left + 8 * side, 14 + at), "border")
    drawing.arrow((89, 50), (101, 50))
    drawing.text(50, 97, "windows", "note")
    drawing.text(140, 97, "next layer: moved by half", "note")
    return drawing


DRAWINGS: dict[str, Callable[[], Drawing]] = {
    "rnn": draw_rnn,
    "rnnsearch": draw_rnnsearch,
    "luong": draw_luong,
    "show-attend-tell": draw_show_attend_tell,
    "deep-att": draw_deep_att,
    "gnmt": draw_gnmt,
    "bytenet": draw_bytenet,
    "moe": draw_moe,
    "convs2s": draw_convs2s,
    "transformer": draw_transformer,
    "gpt": draw_gpt,
    "bert": draw_bert,
    "feedback": draw_feedback,
    "vit": draw_vit,
    "swin": draw_swin,
}
"""The drawing of each family of models."""
