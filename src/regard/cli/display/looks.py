"""The attention of a run of any task but translation, shown and written to files."""

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from regard.cli.display.console import note, out, print_json
from regard.cli.display.figures import save_figures
from regard.inspection.plots.figure import ThemeName
from regard.pipelines.contracts import Look


def show_look(look: Look, files: Sequence[Path], theme: ThemeName, *, as_json: bool) -> None:
    """Print an answer and its attention, and draw it."""
    for message in look.notes:
        note(message)
    if as_json:
        print_json(look.to_json())
    else:
        out.print(f"[bold]{escape(str(look))}[/bold]")
        out.print(f"[dim]{escape(look.title)}[/dim]")
        out.print(look.show())
    save_figures(files, lambda: look.plot(theme=theme))
