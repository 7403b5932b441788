"""Paths in a run's folder, for modules that must not import torch."""

from contextlib import suppress
from pathlib import Path

from regard.yaml_files import YamlError, read_yaml

TRANSLATION = "translation"  # the task of a recipe that names none
CHAT = "chat"
TEXT_TASKS = (TRANSLATION, CHAT)  # a text for a text: the tasks of `Recipe`
RECIPE_FILE = "recipe.yaml"
EXCHANGE_REPORT = "exchange.json"  # of a run that was imported: from where, and what was checked
EXPORT_INFO = "export.json"  # found in the folder of an export, but not of a run
NAMED_WEIGHTS = ("best", "last", "average")  # weights that a finished run keeps beside its model


def weights_file(run: Path, name: str) -> Path:
    """The weights called `name`: model, best, last, average; or those in a file."""
    if name == "model":
        return run / "model.safetensors"
    if name in NAMED_WEIGHTS:
        return run / "weights" / f"{name}.safetensors"
    return Path(name)


def run_task_name(folder: Path) -> str:
    """The task of the run in a folder, read from its recipe alone; translation where none is said.

    A recipe that cannot be read gives no error here: loading it does.
    """
    with suppress(OSError, UnicodeDecodeError, YamlError):
        raw = read_yaml(folder / RECIPE_FILE)
        if isinstance(raw, dict):
            return str(raw.get("task", TRANSLATION))
    return TRANSLATION
