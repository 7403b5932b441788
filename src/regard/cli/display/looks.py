"""The attention of a run of any task but translation, shown and written to files."""

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from regard.atomic_io import write_atomic
from regard.cli.display.console import note, out, print_json
from regard.cli.display.figures import save_figures
from regard.inspection.plots.figure import ThemeName
from regard.pipelines.contracts import Look


def show_look(
    look: Look, files: Sequence[Path], theme: ThemeName, *, changes: str, as_json: bool
) -> None:
    """Print an answer and its attention, and draw it; `changes` says what was changed, if any."""
    for message in look.notes:
        note(message)
    if as_json:
        print_json(look.to_json())
    else:
        out.print(f"[bold]{escape(str(look.before or look))}[/bold]")
        if look.before is not None:
            out.print(f"[dim]{escape(changes)}:[/dim] {escape(str(look))}")
        out.print(f"[dim]{escape(look.title)}[/dim]")
        out.print(look.show())
    save_figures(files, lambda: look.plot(theme=theme))


def save_look_page(look: Look, html: Path | None, model: str) -> None:
    """Write the page of an answer of the run `model`, if a file is named for it."""
    if html is not None:
        write_atomic(html, look.page(Path(model).resolve().name).encode())
        note(f"wrote {html}")
