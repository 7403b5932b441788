"""What a captioner looks at, for `regard look` of a run that captions pictures."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.markup import escape
from typer import Context

from regard.cli.display.console import note, out, print_json
from regard.cli.display.figures import save_figures
from regard.cli.display.tables import plain_table
from regard.decoding.settings import search_settings
from regard.errors import SettingsError
from regard.inspection.plots.figure import ThemeName
from regard.inspection.viewer.html_page import write_picture_page
from regard.pipelines.captioner import CaptionAnswer, load, picture_document

USED_OPTIONS = frozenset(
    "model sentence layer head png svg theme html n_best beam weights device json".split()
)
"""Parameters of `regard look` that mean something for a picture."""


class PictureLook(NamedTuple):
    """How a picture is looked at and shown: options of `regard look`."""

    layer: int | None
    head: int | None
    beam: int | None
    n_best: int | None
    theme: ThemeName
    files: Sequence[Path]  # figures to draw
    html: Path | None
    json: bool

    def show(self, model: str, picture: str, *, device: str, weights: str) -> None:
        """Caption a picture and show what each word looked at."""
        captioner = load(model, device=device, weights=weights)
        settings = search_settings(captioner.settings, beam=self.beam, n_best=self.n_best)
        answer = captioner.look(picture, settings)
        answer.required_attention().weights(self.layer, self.head)  # an error if there is none
        for message in answer.notes:
            note(f"{picture}: {message}")
        if self.json:
            print_json(answer.to_json())
        else:
            self._print(answer)
        save_figures(
            self.files, lambda: answer.plot(layer=self.layer, head=self.head, theme=self.theme)
        )
        if self.html is not None:
            name = captioner.task.folder.resolve().name
            write_picture_page(self.html, picture_document(answer, model=name))
            note(f"wrote {self.html}")
        if not (self.files or self.html or self.json):
            note("--png FILE draws the picture once for each word, --html FILE a page to point at")

    def _print(self, answer: CaptionAnswer) -> None:
        out.print(f"[bold]{escape(answer.text)}[/bold]")
        attention = answer.required_attention()
        rows = []
        for word, weights in zip(
            attention.words, attention.weights(self.layer, self.head), strict=True
        ):
            row, column = divmod(int(weights.argmax()), weights.shape[1])
            rows.append((escape(word), f"{row + 1}, {column + 1}", f"{float(weights.max()):.0%}"))
        across, down = attention.grid
        title = f"where each word looked most, of {across} × {down} regions"
        out.print(plain_table("word", "row, column", "weight", title=title, rows=rows))
        if len(answer.candidates) > 1:
            found = [(f"{one.score:.3f}", escape(one.text)) for one in answer.candidates]
            out.print(plain_table("score", "of the n best", right=("score",), rows=found))


def refuse_unused_options(context: Context) -> None:
    """Raise an error if an option was given that means nothing for a picture."""
    for parameter in context.command.params:
        source = str(context.get_parameter_source(str(parameter.name)))
        if source.endswith("COMMANDLINE") and parameter.name not in USED_OPTIONS:
            raise SettingsError(
                f"{parameter.opts[0]} is for translators, and this run captions pictures: drop it"
            )
