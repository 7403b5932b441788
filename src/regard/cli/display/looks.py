"""The attention of a run of any task, shown and written to files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rich.markup import escape
from rich.text import Text

from regard.atomic_io import write_atomic
from regard.cli.display.console import note, out, print_json
from regard.cli.display.figures import draw_figure, save_drawn
from regard.cli.display.progress_bar import progress_bar
from regard.cli.options.intervention_options import render_word_diff
from regard.tasks.families.pipeline import TaskAnswer

T = TypeVar("T")


class LookFigures(NamedTuple):
    """The figures to draw: files, and options of an answer's `plot`."""

    files: Sequence[Path]
    options: Mapping[str, Any]


def show_look(
    look: TaskAnswer[Any],
    figures: LookFigures,
    view: Mapping[str, Any],
    *,
    changes: str,
    as_json: bool,
) -> None:
    """Print an answer and its attention, and draw it; `view` has the options of its `show`, and
    `changes` describes the interventions, if any.
    """
    # both before anything is printed: a layer or head that does not exist is an error
    shown = look.show(**view)
    figure = draw_figure(figures.files, lambda: look.plot(**view, **figures.options))
    for message in look.notes:
        note(message)
    if as_json:
        print_json(look.to_json())
    else:
        out.print(f"[bold]{escape(str(look.before or look))}[/bold]")
        if look.before is not None:
            out.print(_difference(str(look.before), str(look), changes))
        if look.title:
            out.print(f"[dim]{escape(look.title)}[/dim]")
        out.print(shown)
    save_drawn(figures.files, figure)


def _difference(before: str, after: str, changes: str) -> Text:
    """How changes altered an answer, with its words marked."""
    marked = render_word_diff(before, after, coloured=out.color_system is not None)
    same = Text(" (the same words)", "dim") if before == after else Text()
    return Text.assemble((f"{changes}: ", "dim"), marked, same)


def track_ablations(items: Sequence[T], /) -> Iterable[T]:
    """The items, with a progress bar in a terminal."""
    with progress_bar() as progress:
        yield from progress.track(items, description="silencing heads")


def save_look_page(look: TaskAnswer[Any], html: Path | None, model: str) -> None:
    """Write the page of an answer by the run `model`, if a file is given."""
    if html is not None:
        write_atomic(html, look.page(Path(model).resolve().name).encode())
        note(f"wrote {html}")
