"""Positional encodings as a figure: the vectors, and how alike those of two positions are."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from regard.inspection.plot_letters import write
from regard.inspection.plot_sheet import Scale, Sheet
from regard.inspection.plot_theme import ThemeName, theme_of
from regard.inspection.positions import Encoding, fall

SIDE, WIDE = 2.2, 4.0
"""Inches of a panel's height and of the widest one's width."""
GAP, LEADING = 0.75, 1.15
"""Inches between panels and between encodings."""
ROUND = [digit * 10**zeros for zeros in range(9) for digit in (1, 2, 5)]
"""How many positions there may be from one number to the next."""
NOTE, HEADING, TITLE = 1.04, 1.15, 1.3
"""Where texts above a panel stand, of whose height this is counted from below."""


def plot_positions(
    encodings: Sequence[Encoding], *, title: str = "", theme: ThemeName = "light"
) -> Figure:
    """A row for each encoding: its vectors, their likeness by pairs, and by distance."""
    if not encodings:
        raise ValueError("there are no encodings to draw")
    colours = theme_of(theme)
    width = WIDE + GAP + SIDE + GAP + SIDE
    sheet = Sheet(width, len(encodings) * (SIDE + LEADING) - LEADING, colours)
    for number, encoding in enumerate(encodings):
        top = number * (SIDE + LEADING)
        vectors = sheet.place(0, top, WIDE, SIDE)
        _draw_vectors(sheet, vectors, encoding)
        _draw_similarity(sheet, sheet.place(WIDE + GAP, top, SIDE, SIDE), encoding)
        _draw_fall(sheet, sheet.place(width - SIDE, top, SIDE, SIDE), encoding)
        heading = vectors.text(0, HEADING, describe(encoding), transform=vectors.transAxes)
        write(heading, 11, colours.ink)
        if number == 0 and title:
            named = vectors.text(0, TITLE, title, transform=vectors.transAxes)
            write(named, 12, colours.ink)
    return sheet.figure


def describe(encoding: Encoding) -> str:
    """What an encoding is called: its kind, and whose it is."""
    first, *others = encoding.where
    more = (
        f" and {len(others)} more" if len(others) > 1 else "".join(f", {path}" for path in others)
    )
    count, width = encoding.vectors.shape
    what = "distances" if encoding.kind == "relative" else "positions"
    return f"{encoding.kind}: {first}{more} ({count} {what}, {width} wide)"


def _draw_vectors(sheet: Sheet, axes: Axes, encoding: Encoding) -> None:
    """The vectors, a row for each."""
    peak = float(encoding.vectors.abs().max())
    scale = Scale(sheet.theme.balance, peak, -peak)
    sheet.draw_cells(axes, encoding.vectors, scale, gaps=False)
    _count(axes, encoding, rows=True)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    sheet.label(axes, "dimension", _places(encoding))
    _tell(sheet, axes, f"the vectors, from −{peak:.2g} (blue) to {peak:.2g} (orange)")


def _draw_similarity(sheet: Sheet, axes: Axes, encoding: Encoding) -> None:
    """The cosine between every two vectors."""
    sheet.draw_cells(axes, encoding.similarity(), Scale(sheet.theme.balance, 1, -1), gaps=False)
    _count(axes, encoding, rows=True)
    _count(axes, encoding, rows=False)
    sheet.label(axes, _places(encoding), "")
    _tell(sheet, axes, "cosine between two")


def _draw_fall(sheet: Sheet, axes: Axes, encoding: Encoding) -> None:
    """How the cosine falls with the distance: its mean, and all of it."""
    falling = fall(encoding.similarity())
    far = range(len(falling.mean))
    theme = sheet.theme
    axes.fill_between(far, falling.least, falling.most, color=theme.frame, alpha=0.5, linewidth=0)
    axes.plot(far, falling.mean, color=theme.strong, linewidth=1.5)
    axes.axhline(0, color=theme.frame, linewidth=0.6)
    axes.set(xlim=(0, max(len(far) - 1, 1)), ylim=(min(-0.3, float(falling.least.min())), 1.05))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    sheet.label(axes, "apart by", "")
    _tell(sheet, axes, "cosine by distance")


def _tell(sheet: Sheet, axes: Axes, what: str) -> None:
    write(axes.text(0, NOTE, what, transform=axes.transAxes), 8, sheet.theme.faint)


def _places(encoding: Encoding) -> str:
    return "distance to the key" if encoding.kind == "relative" else "position"


def _count(axes: Axes, encoding: Encoding, *, rows: bool) -> None:
    """Number the rows or columns of a map by their places."""
    places = encoding.places.tolist()
    every = next(step for step in ROUND if len(places) <= 8 * step)
    named = [place for place, value in enumerate(places) if value % every == 0]
    spots = [place + 0.5 for place in named]
    names = [str(places[place]).replace("-", "−") for place in named]  # a minus sign
    if rows:
        axes.set_yticks(spots, names)
    else:
        axes.set_xticks(spots, names)
