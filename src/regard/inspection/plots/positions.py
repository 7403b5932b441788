"""Positional encodings as a figure: the vectors, and how alike those of two positions are."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from regard.inspection.plots.figure import ColourScale, FigureLayout
from regard.inspection.plots.fonts import style_text
from regard.inspection.plots.theme import ThemeName, get_theme
from regard.inspection.position_encodings import PositionEncoding, similarity_by_distance

PANEL_SIZE, VECTOR_PANEL_WIDTH = 2.2, 4.0
"""Inches of a panel's height and of the widest one's width."""
GAP, ROW_GAP = 0.75, 1.15
"""Inches between panels and between encodings."""
TICK_STEPS = [digit * 10**zeros for zeros in range(9) for digit in (1, 2, 5)]
"""How many positions there may be from one number to the next."""
CAPTION_Y, HEADING_Y, TITLE_Y = 1.04, 1.15, 1.3
"""Where texts above a panel stand, of whose height this is counted from below."""


def plot_positions(
    encodings: Sequence[PositionEncoding], *, title: str = "", theme: ThemeName = "light"
) -> Figure:
    """A row for each encoding: its vectors, their likeness by pairs, and by distance."""
    if not encodings:
        raise ValueError("there are no encodings to draw")
    colours = get_theme(theme)
    width = VECTOR_PANEL_WIDTH + GAP + PANEL_SIZE + GAP + PANEL_SIZE
    layout = FigureLayout(width, len(encodings) * (PANEL_SIZE + ROW_GAP) - ROW_GAP, colours)
    for number, encoding in enumerate(encodings):
        top = number * (PANEL_SIZE + ROW_GAP)
        vectors = layout.place(0, top, VECTOR_PANEL_WIDTH, PANEL_SIZE)
        _draw_vectors(layout, vectors, encoding)
        _draw_similarity(
            layout, layout.place(VECTOR_PANEL_WIDTH + GAP, top, PANEL_SIZE, PANEL_SIZE), encoding
        )
        _draw_similarity_by_distance(
            layout, layout.place(width - PANEL_SIZE, top, PANEL_SIZE, PANEL_SIZE), encoding
        )
        heading = vectors.text(
            0, HEADING_Y, describe_encoding(encoding), transform=vectors.transAxes
        )
        style_text(heading, 11, colours.foreground)
        if number == 0 and title:
            named = vectors.text(0, TITLE_Y, title, transform=vectors.transAxes)
            style_text(named, 12, colours.foreground)
    return layout.figure


def describe_encoding(encoding: PositionEncoding) -> str:
    """What an encoding is called: its kind, and whose it is."""
    first, *others = encoding.where
    more = (
        f" and {len(others)} more" if len(others) > 1 else "".join(f", {path}" for path in others)
    )
    count, width = encoding.vectors.shape
    what = "distances" if encoding.kind == "relative" else "positions"
    return f"{encoding.kind}: {first}{more} ({count} {what}, {width} wide)"


def _draw_vectors(layout: FigureLayout, axes: Axes, encoding: PositionEncoding) -> None:
    """The vectors, a row for each."""
    peak = float(encoding.vectors.abs().max())
    scale = ColourScale(layout.theme.diverging, peak, -peak)
    layout.draw_heatmap(axes, encoding.vectors, scale, gaps=False)
    _label_positions(axes, encoding, rows=True)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    layout.label(axes, "dimension", _axis_label(encoding))
    _write_caption(layout, axes, f"the vectors, from −{peak:.2g} (blue) to {peak:.2g} (orange)")


def _draw_similarity(layout: FigureLayout, axes: Axes, encoding: PositionEncoding) -> None:
    """The cosine between every two vectors."""
    layout.draw_heatmap(
        axes, encoding.similarity(), ColourScale(layout.theme.diverging, 1, -1), gaps=False
    )
    _label_positions(axes, encoding, rows=True)
    _label_positions(axes, encoding, rows=False)
    layout.label(axes, _axis_label(encoding), "")
    _write_caption(layout, axes, "cosine between two")


def _draw_similarity_by_distance(
    layout: FigureLayout, axes: Axes, encoding: PositionEncoding
) -> None:
    """How the cosine falls with the distance: its mean, and all of it."""
    by_distance = similarity_by_distance(encoding.similarity())
    far = range(len(by_distance.mean))
    theme = layout.theme
    axes.fill_between(
        far, by_distance.least, by_distance.most, color=theme.border, alpha=0.5, linewidth=0
    )
    axes.plot(far, by_distance.mean, color=theme.accent, linewidth=1.5)
    axes.axhline(0, color=theme.border, linewidth=0.6)
    axes.set(xlim=(0, max(len(far) - 1, 1)), ylim=(min(-0.3, float(by_distance.least.min())), 1.05))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    layout.label(axes, "apart by", "")
    _write_caption(layout, axes, "cosine by distance")


def _write_caption(layout: FigureLayout, axes: Axes, what: str) -> None:
    style_text(axes.text(0, CAPTION_Y, what, transform=axes.transAxes), 8, layout.theme.muted)


def _axis_label(encoding: PositionEncoding) -> str:
    return "distance to the key" if encoding.kind == "relative" else "position"


def _label_positions(axes: Axes, encoding: PositionEncoding, *, rows: bool) -> None:
    """Number the rows or columns of a map by their places."""
    places = encoding.places.tolist()
    tick_step = next(step for step in TICK_STEPS if len(places) <= 8 * step)
    named = [place for place, value in enumerate(places) if value % tick_step == 0]
    spots = [place + 0.5 for place in named]
    names = [str(places[place]).replace("-", "−") for place in named]  # a minus sign
    if rows:
        axes.set_yticks(spots, names)
    else:
        axes.set_xticks(spots, names)
