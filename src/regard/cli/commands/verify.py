"""`regard verify`: the files of a run, checked against its manifest."""

from pathlib import Path

from rich.markup import escape
from typer import Argument

from regard.cli.display.console import note, out, print_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import flag
from regard.errors import RunError
from regard.recipes.verification import accept, verify
from regard.settings import counted

STATE_COLOURS = {"damaged": "red", "missing": "red", "unexpected": "dim"}


def command(
    run: Path = Argument(metavar="RUN", help="The folder of a run, an export or a comparison."),
    accept_all: bool = flag(
        "--accept",
        "Accept all files as they are now: for a run without a manifest, or after you have changed "
        "a file on purpose.",
    ),
    json: shared_options.Json = False,
) -> None:
    """Weights, tokenizers, settings and the data of scores are checked whenever they are read; this
    command checks the other files as well. Logs that grow are not checked. The exit code is 1 if
    anything is damaged or missing.

    Examples:

        regard verify runs/travel
        regard verify runs/old --accept
    """
    if accept_all:
        accept(run)
        note(f"{run}: its files are accepted as they are now")
    found = verify(run)
    if json:
        print_json(found.to_json())
    else:
        for one in found.findings:
            colour = STATE_COLOURS[one.state]
            out.print(f"[{colour}]{one.state}[/] {escape(one.file)}: {escape(one.remedy)}")
    wrong = [one for one in found.findings if one.state != "unexpected"]
    if wrong:
        raise RunError(f"{run}: {len(wrong)} of {counted(found.files, 'file')} damaged or missing")
    if not json:
        out.print(f"{escape(str(run))}: {counted(found.files, 'file')}, all as they were written")
