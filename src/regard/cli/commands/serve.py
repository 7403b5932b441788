"""`regard serve`: models served over HTTP."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError
from typer import Argument, Context, Option

from regard.cli.display.console import note
from regard.cli.options import shared_options
from regard.cli.options.shared_options import (
    PACKAGED_MODEL,
    note_packaged_model,
    option,
)
from regard.engines.ctranslate2.export_artifact import ExportPrecision
from regard.errors import SettingsError
from regard.settings import expectation
from regard.tasks.families.options import WITHOUT_MODEL

try:
    from regard.server.access import KEYS_VARIABLE, read_keys
    from regard.server.served_models import LoadOptions, parse_model_spec
    from regard.server.settings import ServerSettings, is_loopback
    from regard.server.uvicorn_server import serve
except ModuleNotFoundError as missing:
    raise SettingsError(
        f"regard serve needs {missing.name}, which is not installed: pip install 'regard[serve]'"
    ) from None


def setting_option(name: str, *flags: str, metavar: str | None = None) -> Any:
    """The option for a setting, with its description and default."""
    field = ServerSettings.model_fields[name]
    default_text = f" [default: {field.default}]" if field.default not in ((), False, None) else ""
    flag = f"--{name.replace('_', '-')}"
    return Option(
        None, *(flags or (flag,)), metavar=metavar, help=f"{field.description}{default_text}"
    )


def command(
    context: Context,
    models: list[str] = Argument(
        [PACKAGED_MODEL],
        metavar="[MODEL]...",
        help="Runs' folders, such as runs/travel; fr-en=runs/travel names the languages of a "
        f"run whose corpus does not; {WITHOUT_MODEL}",
        show_default=False,
    ),
    host: str | None = setting_option("host"),
    port: int | None = setting_option("port"),
    keys: Path | None = option(
        "A file of API keys, one on each line: only requests with one of them are served. "
        f"The environment variable {KEYS_VARIABLE} may have keys too.",
        metavar="FILE",
    ),
    origins: list[str] | None = setting_option("origins", "--cors", metavar="ORIGIN"),
    hosts: list[str] | None = setting_option("hosts", "--allow-host"),
    window: float | None = setting_option("window"),
    batch_tokens: int | None = setting_option("batch_tokens"),
    workers: int | None = setting_option("workers"),
    queue: int | None = setting_option("queue"),
    rate_limit: int | None = setting_option("rate_limit"),
    timeout: float | None = setting_option("timeout"),
    read_timeout: float | None = setting_option("read_timeout"),
    grace: float | None = setting_option("grace"),
    max_bytes: int | None = setting_option("max_bytes"),
    max_bytes_held: int | None = setting_option("max_bytes_held"),
    max_characters: int | None = setting_option("max_characters"),
    max_texts: int | None = setting_option("max_texts"),
    max_alternatives: int | None = setting_option("max_alternatives"),
    max_beam: int | None = setting_option("max_beam"),
    sentences: bool | None = option(
        "Translate the sentences of a line one by one, and keep text that is not a sentence; or "
        "give the models whole lines. By default as each run has learned.",
        "--sentences/--whole-lines",
        " /--lines",
    ),
    files: Path | None = setting_option("files", metavar="DIR"),
    watch: bool | None = setting_option("watch"),
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    engine: shared_options.Engine = "auto",
    precision: ExportPrecision = option(
        "Of the weights. Streams and looks are computed by the native engine, in float32 with "
        "--engine auto: in another precision, plain translations may differ from theirs.",
        default="float32",
    ),
) -> None:
    """Requests of many users are merged into batches. The server can only be reached from this
    machine, unless --host says otherwise; then consider --keys. On SIGTERM it answers all accepted
    requests and ends; on SIGHUP it loads the models again.

    Examples:

        regard serve
        regard serve runs/travel
        curl -d q="Elle part." -d source=fr -d target=en http://127.0.0.1:5000/translate
    """
    note_packaged_model(context, "models")
    settings = _settings(context)
    known = read_keys(keys)
    specs = [parse_model_spec(model) for model in models]
    if not known and not is_loopback(settings.host):
        note(f"anyone who can reach {settings.host} can use this server: consider --keys")
    pairs = ", ".join(str(one.languages) for one in specs)
    serve(
        specs,
        settings,
        known,
        LoadOptions(device, engine, precision, adapter),
        on_listening=lambda where: note(f"serving {pairs} at {where}"),
    )


def _settings(context: Context) -> ServerSettings:
    """The settings from the options; options that were not given have the settings' defaults."""
    known = ServerSettings.model_fields
    given = {
        name: value for name, value in context.params.items() if name in known and value is not None
    }
    try:
        return ServerSettings(**given)
    except ValidationError as error:
        mistake = error.errors()[0]
        flags = {param.name: param.opts[0] for param in context.command.params}
        flag = flags[str(mistake["loc"][0])]
        raise SettingsError(f"{flag} {mistake['input']}: {expectation(mistake)}") from None
