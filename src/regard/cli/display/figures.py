"""Figures that a command draws on request."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from matplotlib.figure import Figure

from regard.cli.display.console import note
from regard.errors import MissingFontWarning, SettingsError
from regard.inspection.plots.figure import save_figure


def figure_files(png: Path | None, svg: Path | None) -> list[Path]:
    """The files to draw; an error if one does not have the ending of its option."""
    check_suffix("--png", png, ".png")
    check_suffix("--svg", svg, ".svg")
    return [file for file in (png, svg) if file is not None]


def check_suffix(option: str, file: Path | None, ending: str) -> None:
    """Raise an error if a file's name has another ending."""
    if file is not None and file.suffix != ending:
        raise SettingsError(f"{option} {file}: the file's name should end in {ending}")


def save_figures(files: Sequence[Path], draw: Callable[[], Figure]) -> None:
    """Draw one figure into each of the files, if there are any, with a note."""
    save_drawn(files, draw_figure(files, draw))


def draw_figure(files: Sequence[Path], draw: Callable[[], Figure]) -> Figure | None:
    """The figure, if there are files to save it to."""
    if not files:
        return None
    with missing_fonts_noted():
        return draw()


def save_drawn(files: Sequence[Path], figure: Figure | None) -> None:
    """Save a figure to each of the files, with a note."""
    if figure is None:
        return
    for file in files:
        save_figure(figure, file)
        note(f"drew {file}")


@contextmanager
def missing_fonts_noted() -> Iterator[None]:
    """Print a note for each font that the figures made in the body lack."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MissingFontWarning)
        yield
    for one in caught:
        if issubclass(one.category, MissingFontWarning):
            note(str(one.message))
        else:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
