"""A saved run of any task as a function."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from regard.errors import RunError
from regard.recipes.paths import PACKAGED_RUN, require_run, run_spec

if TYPE_CHECKING:  # they import torch
    from regard.tasks.captions.pipeline import Captioner
    from regard.tasks.embedding.pipeline import Embedder
    from regard.tasks.forecast.pipeline import Forecaster
    from regard.tasks.language.pipeline import Completer
    from regard.tasks.masked.pipeline import Filler
    from regard.tasks.picture_classes.pipeline import PictureLabelPipeline
    from regard.tasks.text_classes.pipeline import TextLabelPipeline
    from regard.tasks.translation.chat.pipeline import Chatbot
    from regard.tasks.translation.pipeline import Translator


@overload
def load(*, task: Literal["translation"] | None = None, **options: Any) -> "Translator": ...
@overload
def load(
    path: str | Path, *others: str | Path, task: Literal["translation"], **options: Any
) -> "Translator": ...
@overload
def load(path: str | Path, *, task: Literal["chat"], **options: Any) -> "Chatbot": ...
@overload
def load(path: str | Path, *, task: Literal["forecast"], **options: Any) -> "Forecaster": ...
@overload
def load(path: str | Path, *, task: Literal["caption"], **options: Any) -> "Captioner": ...
@overload
def load(path: str | Path, *, task: Literal["language-model"], **options: Any) -> "Completer": ...
@overload
def load(
    path: str | Path, *, task: Literal["bidirectional-language-model"], **options: Any
) -> "Embedder": ...
@overload
def load(
    path: str | Path, *, task: Literal["masked-language-model"], **options: Any
) -> "Filler": ...
@overload
def load(
    path: str | Path, *, task: Literal["text-classification"], **options: Any
) -> "TextLabelPipeline": ...
@overload
def load(
    path: str | Path, *, task: Literal["picture-classification"], **options: Any
) -> "PictureLabelPipeline": ...
@overload
def load(path: str | Path, *others: str | Path, task: str | None = None, **options: Any) -> Any: ...


def load(
    path: str | Path = PACKAGED_RUN, *others: str | Path, task: str | None = None, **options: Any
) -> Any:
    """The pipeline of the run in a folder: a `Translator`, or that of the run's task; without a
    folder, the small translator that comes with the package.

    With `task`, type checkers know the pipeline's type, and a run of another task is an error. For
    a translator or a classifier, `others` are further runs of an ensemble; an adapter is applied to
    the first run only. `options` of a translator are those of `load` in
    `regard.tasks.translation.pipeline`; other tasks take `device`, `weights` and `adapter`.
    """
    spec = run_spec(Path(path))
    if task is not None and task != spec.name:
        require_run(Path(path))
        raise RunError(f"{path}: its task is {spec.name}, not {task}")
    return spec.load()(path, *others, **options)


def load_for_look(
    path: str | Path, *, device: str = "auto", weights: str = "model", adapter: str | None = None
) -> Any:
    """The pipeline of a run, as a `Pipeline`: by the native engine, which can record attention."""
    options = {"engine": "native"} if run_spec(Path(path)).pairs else {}
    return load(path, device=device, weights=weights, adapter=adapter, **options)
