"""Paths of runs and of files in them, for modules that must not import torch."""

import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from regard.errors import RunError, SettingsError, StorageError
from regard.settings import quoted
from regard.tasks.registry import DEFAULT_TASK, TASKS
from regard.tasks.spec import TaskSpec
from regard.yaml_files import YamlError, read_yaml

RECIPE_FILE = "recipe.yaml"
RUNS = Path("runs")  # where runs are made, unless --out names a folder
PACKAGED_RUN = Path(__file__).parent / "packaged" / "travel"
"""The run in the package, a small translator; commands use it if no run is named."""
EXCHANGE_REPORT = "exchange.json"  # of an imported run: its source, and what was checked
EXPORT_INFO = "export.json"  # found in the folder of an export, but not of a run
ADAPTER_FILE = "adapter.safetensors"  # of a run that was trained with low-rank updates
ADAPTERS = "adapters"  # the folder of a run that holds those made for it
FOREIGN_FILES = ("config.json", "*.gguf")  # of folders that may be imported
HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?", re.ASCII)  # of a model on the Hugging Face hub
NAMED_WEIGHTS = ("best", "last", "average")  # weights that a finished run keeps beside its model


def weights_file(run: Path, name: str) -> Path:
    """The weights called `name`: model, best, last, average; or those in a file."""
    if name == "model":
        return run / "model.safetensors"
    if name in NAMED_WEIGHTS:
        return run / "weights" / f"{name}.safetensors"
    return Path(name)


def find_adapter(run: Path, name: str) -> Path:
    """The file of an adapter for a run: `name` is an adapter in the run, another run, or a file. An
    error lists the adapters that the run has.
    """
    own, other = run / ADAPTERS / f"{name}.safetensors", Path(name)
    for file in (own, other / ADAPTER_FILE, other):
        if file.is_file():
            return file
    there = sorted(file.stem for file in (run / ADAPTERS).glob("*.safetensors"))
    found = f"there are {', '.join(there)}" if there else "it has none"
    raise RunError(
        f"{run}: no adapter {name}; {found}: train one with `regard train --from "
        f"{quoted(run)} --adapter {quoted(name)} --data FILE`, or name a file, or a run that was "
        "trained with one"
    )


def is_packaged(run: Path) -> bool:
    """Whether a folder is the run in the package."""
    return run.resolve() == PACKAGED_RUN.resolve()


def check_not_packaged(run: Path, what: str, form: str = "run --out DIR") -> None:
    """Raise an error if `run` is the run in the package, where `what` cannot be kept; it names the
    export to use instead, by default a copy of the run.
    """
    if is_packaged(run):
        instead = f"regard export {quoted(run)} --to {form}"
        raise StorageError(f"{run}: {what} kept in the installed package; instead: {instead}")


def wrong_task_error(run: Path | str, found: str, needed: str) -> RunError:
    """The error about a run of the task `found`, with its command; `needed` describes the expected
    task.
    """
    return RunError(
        f"{run}: its task is {found}, {needed}; the command for it is: "
        f"regard {TASKS[found].verb} {quoted(run)}"
    )


def require_folder(folder: Path, out: Path | None = None) -> None:
    """Raise an error if there is no such folder. If it has the name of a model on the Hugging Face
    hub, or if it is to be imported as the run `out`, the error says how to get it.
    """
    if folder.is_dir():
        return
    if folder.exists():
        step = "a run is a folder"
        if (folder.parent / RECIPE_FILE).is_file():
            step = f"give the folder that it is in: {quoted(folder.parent)}"
        elif _is_foreign(folder.parent):
            step = f"import the folder that it is in: {import_command(folder.parent, out)}"
        raise RunError(f"{folder}: a file; {step}")
    name, hint = str(folder), ""
    is_place = folder.parent == RUNS or folder.parent.is_dir()
    if HUB_NAME.fullmatch(name) and (out is not None or not is_place):
        hint = (
            f"; a model of the Hugging Face hub is downloaded first: hf download {quoted(name)} "
            f"--local-dir {quoted(folder.name)} && {import_command(Path(folder.name), out)}"
        )
    raise RunError(f"{folder}: no such folder{hint}")


def import_command(folder: Path, out: Path | None = None) -> str:
    """The command that imports a folder as the run `out`, by default in `RUNS`."""
    out = out or RUNS / folder.resolve().name
    return f"regard import {quoted(folder)} --out {quoted(out)}"


def _is_foreign(folder: Path) -> bool:
    """Whether another toolkit has written into the folder."""
    return any(next(folder.glob(pattern), None) for pattern in FOREIGN_FILES)


def require_run(folder: Path) -> None:
    """Raise an error if there is no run in a folder."""
    require_folder(folder)
    if (folder / RECIPE_FILE).is_file():
        return
    hint = ""
    if (folder / EXPORT_INFO).is_file():
        hint = f"; it is an export, which can only translate: regard translate {quoted(folder)}"
    elif _is_foreign(folder):
        hint = f"; import the model of another toolkit first: {import_command(folder)}"
    raise RunError(f"{folder}: not a run: it has no {RECIPE_FILE}{hint}")


def require_different(runs: Sequence[Path | str], adapter: str | None = None) -> None:
    """Raise an error if a run is named twice, as it would count twice in a mean. An adapter belongs
    to the first run, and makes it a different model from the same run without it.
    """
    seen = set[Path]()
    for number, run in enumerate(runs):
        place = Path(run).resolve()
        if place in seen:
            raise SettingsError(f"{run}: named twice; name each run once")
        if number or adapter is None:
            seen.add(place)


def run_task_name(folder: Path) -> str:
    """The task of the run in a folder, read from its recipe only; translation if it names none.

    A recipe that cannot be read gives no error here: loading it does.
    """
    with suppress(OSError, UnicodeDecodeError, YamlError):
        raw = read_yaml(folder / RECIPE_FILE)
        if isinstance(raw, dict):
            return str(raw.get("task", DEFAULT_TASK))
    return DEFAULT_TASK


def run_spec(folder: Path) -> TaskSpec:
    """The row of the task of the run in a folder; where the recipe names none that is known, that
    of the default, whose loading gives the error.
    """
    return TASKS.get(run_task_name(folder), TASKS[DEFAULT_TASK])
