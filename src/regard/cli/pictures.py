"""Figures that a command is asked to draw."""

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from regard.cli.console import note
from regard.errors import SettingsError
from regard.inspection.plot import save_figure


def name_pictures(png: Path | None, svg: Path | None) -> list[Path]:
    """The files to draw, whose names say how."""
    for file, suffix in ((png, ".png"), (svg, ".svg")):
        if file is not None and file.suffix != suffix:
            raise SettingsError(f"--{suffix[1:]} {file}: the file's name should end in {suffix}")
    return [file for file in (png, svg) if file is not None]


def draw_all(files: Sequence[Path], draw: Callable[[], Figure]) -> None:
    """Draw one figure into each of the files, if there are any, and say so."""
    if files:
        figure = draw()
        for file in files:
            save_figure(figure, file)
            note(f"drew {file}")
