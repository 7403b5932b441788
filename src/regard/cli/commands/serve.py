"""`regard serve`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from regard.cli.display.console import note
from regard.cli.options import shared_options
from regard.engines.ctranslate2.export_artifact import Precision
from regard.errors import SettingsError
from regard.settings import expectation

try:
    from regard.server.middleware.access import KEYS_VARIABLE, ApiKeys, read_keys
    from regard.server.middleware.limits import is_loopback
    from regard.server.models import LoadOptions, parse_model_spec
    from regard.server.settings import ServerSettings
    from regard.server.uvicorn_server import serve
except ModuleNotFoundError as missing:
    raise SettingsError(
        f"regard serve needs {missing.name}, which is not installed: pip install 'regard[serve]'"
    ) from None

app = typer.Typer()

SETTING_OF_OPTION = {"cors": "origins", "allow_host": "hosts"}
"""The settings of options that are not called like them."""


def setting_option(name: str, *flags: str, metavar: str | None = None) -> Any:
    """The option for a setting, which says of itself what it does and what it is by default."""
    field = ServerSettings.model_fields[name]
    default_text = f" [default: {field.default}]" if field.default not in ((), False, None) else ""
    flag = f"--{name.replace('_', '-')}"
    return typer.Option(
        *(flags or (flag,)), metavar=metavar, help=f"{field.description}{default_text}"
    )


@app.command()
def command(
    context: typer.Context,
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Runs' folders, such as runs/travel; fr-en=runs/travel names the languages of a "
            "run whose corpus does not.",
        ),
    ],
    host: Annotated[str | None, setting_option("host")] = None,
    port: Annotated[int | None, setting_option("port")] = None,
    keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="API keys, one on each line: only who sends one is served. "
            f"{KEYS_VARIABLE} in the environment may hold some, too.",
        ),
    ] = None,
    cors: Annotated[list[str] | None, setting_option("origins", "--cors", metavar="ORIGIN")] = None,
    allow_host: Annotated[list[str] | None, setting_option("hosts", "--allow-host")] = None,
    window: Annotated[float | None, setting_option("window")] = None,
    batch_tokens: Annotated[int | None, setting_option("batch_tokens")] = None,
    queue: Annotated[int | None, setting_option("queue")] = None,
    rate_limit: Annotated[int | None, setting_option("rate_limit")] = None,
    timeout: Annotated[float | None, setting_option("timeout")] = None,
    read_timeout: Annotated[float | None, setting_option("read_timeout")] = None,
    grace: Annotated[float | None, setting_option("grace")] = None,
    max_bytes: Annotated[int | None, setting_option("max_bytes")] = None,
    max_bytes_held: Annotated[int | None, setting_option("max_bytes_held")] = None,
    max_characters: Annotated[int | None, setting_option("max_characters")] = None,
    max_texts: Annotated[int | None, setting_option("max_texts")] = None,
    max_alternatives: Annotated[int | None, setting_option("max_alternatives")] = None,
    max_beam: Annotated[int | None, setting_option("max_beam")] = None,
    sentences: Annotated[
        bool | None,
        typer.Option(
            "--sentences/--whole-lines",
            " /--lines",
            help="Translate the sentences of a line one by one, and leave what is no sentence as "
            "it is; or give the models whole lines. Otherwise as each run has learned.",
        ),
    ] = None,
    watch: Annotated[bool, setting_option("watch")] = False,
    device: shared_options.Device = "auto",
    engine: shared_options.Engine = "auto",
    precision: Annotated[
        Precision,
        typer.Option(
            help="Of the weights. What is streamed or looked into is the native engine's, which "
            "with --engine auto has float32: with another precision people who see both may see "
            "two translations."
        ),
    ] = "float32",
) -> None:
    """Serve models over HTTP: a page, LibreTranslate's interface, attention, alignments.

    Requests of many users are gathered into batches. The server is reached from this machine alone
    unless --host says otherwise; then think of --keys. SIGTERM ends it when all that it has begun
    is answered; SIGHUP loads the models again.

    Examples:

        regard serve runs/travel
        curl -d q="Elle part." -d source=fr -d target=en http://127.0.0.1:5000/translate
    """
    settings = _settings(context.params)
    known = read_keys(keys)
    specs = [parse_model_spec(model) for model in models]
    _warn_if_open(settings, known)
    pairs = ", ".join(str(one.languages) for one in specs)
    serve(
        specs,
        settings,
        known,
        LoadOptions(device, engine, precision),
        on_listening=lambda where: note(f"serving {pairs} at {where}"),
    )


def _settings(params: Mapping[str, Any]) -> ServerSettings:
    """What the options say; those that were not given are left to the settings' defaults."""
    named = {SETTING_OF_OPTION.get(option, option): value for option, value in params.items()}
    known = ServerSettings.model_fields
    given = {name: value for name, value in named.items() if name in known and value is not None}
    try:
        return ServerSettings(**given)
    except ValidationError as error:
        mistake = error.errors()[0]
        name = str(mistake["loc"][0])
        option = next(
            (option for option, other in SETTING_OF_OPTION.items() if other == name), name
        )
        flag = option.replace("_", "-")
        raise SettingsError(f"--{flag} {mistake['input']}: {expectation(mistake)}") from None


def _warn_if_open(settings: ServerSettings, keys: ApiKeys) -> None:
    """Say that the server is open, where it is."""
    if not keys and not is_loopback(settings.host):
        note(f"whoever reaches {settings.host} may use this server: think of --keys")
