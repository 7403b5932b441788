"""`regard serve`."""

from typing import Annotated

import typer

from regard.cli import options
from regard.cli.console import note
from regard.errors import SettingsError

try:
    from regard.serving.server.keys import read_keys
    from regard.serving.server.models import read_asked
    from regard.serving.server.settings import ServerSettings
    from regard.serving.server.start import serve
except ModuleNotFoundError as missing:
    raise SettingsError(
        f"regard serve needs {missing.name}, which is not installed: pip install 'regard[serve]'"
    ) from None

app = typer.Typer()


def described(name: str) -> str:
    """What the settings say of one of them: help is written once."""
    return ServerSettings.model_fields[name].description or ""


@app.command()
def command(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Runs' folders, such as runs/travel; fr-en=runs/travel names the languages of a "
            "run whose corpus does not.",
        ),
    ],
    host: Annotated[str, typer.Option(help=described("host"))] = "127.0.0.1",
    port: Annotated[int, typer.Option(help=described("port"))] = 5000,
    device: options.Device = "auto",
) -> None:
    """Serve models over HTTP: a page, LibreTranslate's interface, attention, alignments.

    Requests of many users are gathered into batches. The server is reached from this machine alone
    unless --host says otherwise; then think of --keys. SIGTERM ends it when all that it has begun
    is answered; SIGHUP loads the models again.

    Examples:

        regard serve runs/travel
        curl -d q="Elle part." -d source=fr -d target=en http://127.0.0.1:5000/translate
    """
    settings = ServerSettings(host=host, port=port)
    asked = [read_asked(model) for model in models]
    pairs = ", ".join(str(one.languages) for one in asked)
    serve(
        asked,
        settings,
        read_keys(None),
        device=device,
        announce=lambda where: note(f"serving {pairs} at {where}"),
    )
