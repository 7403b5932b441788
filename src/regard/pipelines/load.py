"""A saved run of any task as a function."""

from importlib import import_module
from pathlib import Path
from typing import Any

from regard.errors import SettingsError
from regard.pipelines.translator import load as load_translator
from regard.recipes.paths import TRANSLATION, run_task_name

PIPELINES = {
    "bidirectional-language-model": "regard.pipelines.language.embedder",
    "caption": "regard.pipelines.captioner",
    "chat": "regard.pipelines.chat.chatbot",
    "forecast": "regard.pipelines.forecaster",
    "language-model": "regard.pipelines.language.completer",
    "masked-language-model": "regard.pipelines.language.filler",
    "text-classification": "regard.pipelines.classification.text_labels",
}
"""Task -> the module of its pipeline, which has a function `load(path, *, device, weights)`; it is
imported when it is needed: a translator that runs in CTranslate2 does without torch."""


def load(path: str | Path, *others: str | Path, **options: Any) -> Any:
    """The pipeline of the run in a folder: a `Translator`, or that of the run's task.

    Of a translator, `others` are further runs of an ensemble, and `options` those of
    `regard.pipelines.translator.load`; other tasks take `device` and `weights`.
    """
    task = run_task_name(Path(path))
    if task == TRANSLATION or task not in PIPELINES:
        return load_translator(path, *others, **options)
    if others:
        raise SettingsError(f"{path}: its task is {task}, of which there are no ensembles")
    return import_module(PIPELINES[task]).load(path, **options)


def load_for_look(path: str | Path, *, device: str = "auto", weights: str = "model") -> Any:
    """The same as a `Pipeline` that records attention, which an export of a translator cannot."""
    options = {"engine": "native"} if run_task_name(Path(path)) == TRANSLATION else {}
    return load(path, device=device, weights=weights, **options)
