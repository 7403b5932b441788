"""`regard serve` as an application of Ray Serve, which runs replicas of it on many machines.

    serve run regard.cluster.ray_serve:app models=runs/travel replicas=2

A replica has the routes, the page, the batching and the limits of one `regard serve`. Ray Serve
distributes requests over replicas, replaces those that die, and drains those that it replaces.
"""

from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any

from pydantic import BeforeValidator, PositiveInt
from ray import serve
from starlette.types import ASGIApp

from regard.engines.ctranslate2.export_artifact import ExportPrecision
from regard.errors import RunError
from regard.server.access import read_keys
from regard.server.app import build_app
from regard.server.served_models import LoadOptions, parse_model_spec
from regard.server.service import Service
from regard.server.settings import ServerSettings
from regard.server.telemetry import configure_logging
from regard.tasks.translation.pipeline import EngineChoice

HEALTH_SECONDS = 5.0  # between two health checks of a replica
Words = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda given: given.split(",") if isinstance(given, str) else given),
]


class ServeArguments(ServerSettings):
    """The NAME=VALUE arguments of `serve run`: the settings of a server, and the following."""

    models: Words
    """Folders of runs, separated by commas; every machine must see them under the same path."""
    replicas: PositiveInt = 1
    """Servers that share the requests."""
    cores: PositiveInt = 1
    """Cores of each replica."""
    gpus: float = 0.0
    """GPUs of each replica; with a fraction, such as 0.5, replicas share a GPU."""
    version: str = ""
    """Any text; changing it replaces all replicas, for example after weights have changed."""
    keys: Path | None = None
    """A file of API keys, one on each line."""
    device: str = "auto"
    engine: EngineChoice = "auto"
    precision: ExportPrecision = "float32"
    origins: Words = ()
    hosts: Words = ()


@serve.ingress()
class TranslationReplica:
    """One server of the application."""

    def __init__(self, arguments: ServeArguments) -> None:
        configure_logging()
        names = ServerSettings.model_fields
        settings = ServerSettings(**arguments.model_dump(include=set(names)))
        options = LoadOptions(arguments.device, arguments.engine, arguments.precision)
        specs = [parse_model_spec(model) for model in arguments.models]
        self._app = build_app(Service(specs, settings, read_keys(arguments.keys), options))

    def __serve_build_asgi_app__(self) -> ASGIApp:
        lifecycle: ASGIApp = self._app.state.lifecycle
        return lifecycle

    def check_health(self) -> None:
        """Raise an error, so that Ray replaces the replica, if a model's batcher has stopped."""
        service: Service = self._app.state.service
        stopped = [str(one.languages) for one in service.models.served if one.batcher.stopped]
        if stopped:
            raise RunError(f"{', '.join(stopped)}: its batches have stopped")


def app(arguments: ServeArguments) -> Any:
    """The application; paths are relative to the folder where `serve run` is called.

    Translated files are shared by the replicas of one machine, or by all replicas if `files` is a
    folder that all of them see.
    """
    models = tuple(_absolute(model) for model in arguments.models)
    deployment = serve.deployment(
        TranslationReplica,
        name="regard",
        num_replicas=arguments.replicas,
        max_ongoing_requests=arguments.queue,  # the replica merges them into batches
        graceful_shutdown_timeout_s=arguments.grace,
        health_check_period_s=HEALTH_SECONDS,
        ray_actor_options={"num_cpus": arguments.cores, "num_gpus": arguments.gpus},
    )
    files = arguments.files or Path(mkdtemp(prefix="regard-files-"))
    keys = arguments.keys and arguments.keys.resolve()
    changed = {"models": models, "files": files.resolve(), "keys": keys}
    return deployment.bind(arguments.model_copy(update=changed))


def _absolute(model: str) -> str:
    """A model in the form that `parse_model_spec` reads, with an absolute path."""
    languages, equals, folder = model.partition("=")
    if not equals or Path(model).exists():
        return str(Path(model).resolve())
    return f"{languages}={Path(folder).resolve()}"
