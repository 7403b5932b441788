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
    look: Look,
    files: Sequence[Path],
    theme: ThemeName,
    *,
    as_json: bool,
    html: Path | None = None,
    model: str = "",
) -> None:
    """Print an answer and its attention, draw it, and write the page of the run `model`."""
    page = None if html is None else look.page(Path(model).resolve().name)
    for message in look.notes:
        note(message)
    if as_json:
        print_json(look.to_json())
    else:
        out.print(f"[bold]{escape(str(look))}[/bold]")
        out.print(f"[dim]{escape(look.title)}[/dim]")
        out.print(look.show())
    save_figures(files, lambda: look.plot(theme=theme))
    if html is not None and page is not None:
        write_atomic(html, page.encode())
        note(f"wrote {html}")
