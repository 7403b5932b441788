"""The folder of a run: its files, its lock, and loading the run from it."""

import fcntl
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard import manifest
from regard.atomic_io import (
    check_no_linked_folders,
    exclusive_lock,
    lock_owner,
    remove_file,
    remove_part_files,
    storage_error,
    write_atomic,
)
from regard.corpora.pair_texts import PREPARED_FILE, PreparedData, load_prepared
from regard.errors import DamagedError, RunError, RunWarning, SettingsError
from regard.models.build import parameter_limit
from regard.models.contracts import AnyModel
from regard.nested_values import Raw
from regard.recipes.memory import physical_memory
from regard.recipes.paths import (
    EXPORT_INFO,
    NAMED_WEIGHTS,
    RECIPE_FILE,
    require_run,
    run_spec,
    weights_file,
    wrong_task_error,
)
from regard.recipes.recipe_files import (
    dump_recipe,
    fill_old_defaults,
    make_recipe,
    read_raw,
)
from regard.recipes.transfer.adapters import merge_adapter
from regard.settings import abbreviate, counted, quoted
from regard.tasks.contracts import TaskRecipe
from regard.tasks.registry import TASKS, tasks_of_pairs
from regard.training.checkpoints import (
    check_finite,
    find_checkpoint,
    list_checkpoints,
    load_weights,
)

ModelT = TypeVar("ModelT", bound=AnyModel)
BYTES_PER_PARAMETER = 4
MAX_SHARED_MODULES = 4  # modules that may share a parameter, which is stored once
FIRST_WEIGHTS_FILE = "first.safetensors"  # in the folder of refinement: its initial weights
COMPARISON_PLAN_FILE = "plan.json"  # found in the folder of a comparison
RUN_SUBFOLDERS = ("", "data", "weights", "checkpoints")
WEIGHT_SETTINGS = {"model": "model", "text": "text", "limit": "training.max_tokens"}
"""Parts of a recipe that must not change after the run's weights were trained."""


class RunFolder:
    """Paths of the parts of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.recipe = path / RECIPE_FILE  # every default written out
        self.data = path / "data"  # the cleaned splits as text, and their tokens
        self.card = path / "card.md"  # the model card
        self.scores = path / "scores.json"  # on held-out pairs
        self.lock = path / ".lock"  # held by a process that writes into the folder

    @property
    def refined(self) -> "RunFolder":
        """The folder of refinement, with its own metrics, weights and checkpoints."""
        return RunFolder(self.path / "refined")

    def weights(self, name: str) -> Path:
        """The weights called `name`: model, best, last, average; or those in a file."""
        return weights_file(self.path, name)

    def exists(self) -> bool:
        """Whether the data of the run have been read, so that it can be resumed."""
        prepared = self.data / PREPARED_FILE
        return self.has_checkpoints() or (self.recipe.exists() and prepared.exists())

    def has_checkpoints(self) -> bool:
        """Whether there are checkpoints to resume from."""
        return bool(list_checkpoints(self.path / "checkpoints"))

    def has_training(self) -> bool:
        """Whether training has begun here, or there are weights (of an imported run). Otherwise a
        new run may begin here, for example after one that failed because of its settings.
        """
        files = self.path / "metrics.jsonl", self.weights("model")
        return self.has_checkpoints() or any(file.exists() for file in files)

    def has_whole_checkpoint(self) -> bool:
        """Whether a checkpoint is complete; if none is, training starts over."""
        return find_checkpoint(self.path / "checkpoints").path is not None

    def finished(self) -> bool:
        """Whether the run was trained and scored: its card is written last."""
        return self.card.is_file()

    def mark_unfinished(self) -> None:
        """Remove the card and the scores."""
        remove_file(self.card)
        remove_file(self.scores)

    def save_recipe(self, recipe: TaskRecipe) -> None:
        """Write the recipe of the run."""
        self.create()
        parts = _digest_parts(json.loads(recipe.model_dump_json()))
        write_atomic(self.recipe, dump_recipe(recipe).encode(), parts)

    def load_recipe(self, overrides: Sequence[str] = ()) -> TaskRecipe:
        """The recipe that the run was begun with, with `a.b=c` overrides."""
        require_run(self.path)
        manifest.warn_without_manifest(self.path)
        where = str(self.recipe)
        for _ in range(manifest.READ_ATTEMPTS):  # while another process replaces it
            raw = read_raw(self.recipe, where=where)
            changed = manifest.damaged_parts(self.path, RECIPE_FILE, _digest_parts(raw))
            if not changed:
                break
        recipe = make_recipe(fill_old_defaults(raw), overrides, where=where)
        if wrong := [WEIGHT_SETTINGS[part] for part in changed if part in WEIGHT_SETTINGS]:
            raise DamagedError(
                f"{self.recipe}: {' and '.join(wrong)}: not what "
                "the run's weights were trained with: damaged, or edited; undo the edit, or "
                f"restore the file from a copy. `regard verify {quoted(self.path)}` checks all of "
                "them"
            )
        if changed:
            warnings.warn(
                f"{self.recipe}: {' and '.join(changed)}: edited since the run wrote it; "
                f"to accept that and hide this note: regard verify {quoted(self.path)} --accept",
                RunWarning,
                stacklevel=1,
            )
        return recipe

    def create(self) -> None:
        """Create the folder and its manifest; an error if it holds anything but a run."""
        if (self.path / EXPORT_INFO).is_file():
            raise RunError(f"{self.path}: holds an export; name another folder with --out")
        if self.path.is_dir() and manifest.read_manifest(self.path) is None:
            known = self.exists() or (self.path / COMPARISON_PLAN_FILE).is_file()
            names = sorted(path.name for path in self.path.iterdir())
            leftover = manifest.PART_FILE_NAME.fullmatch  # of a process killed at its start
            others = [name for name in names if name != self.lock.name and not leftover(name)]
            if others and not known:
                more = f" and {len(others) - 1} more" if len(others) > 1 else ""
                raise RunError(
                    f"{self.path}: not empty, and not a run: it holds {others[0]}{more}; "
                    "name a folder that is new or empty with --out"
                )
            if self.exists():
                self.rebuild_manifest()  # of a run from before there were manifests
        try:
            manifest.create_manifest(self.path)
        except OSError as error:
            raise storage_error(self.path, error) from None

    def rebuild_manifest(self) -> None:
        """Write a new manifest of the files as they are now."""
        parts = {}
        if self.recipe.is_file():
            digests = _digest_parts(read_raw(self.recipe, where=str(self.recipe)))
            parts = {manifest.part_entry_name(RECIPE_FILE, n): x for n, x in digests.items()}
        try:
            manifest.rebuild_manifest(self.path, parts)
        except OSError as error:
            raise storage_error(self.path / manifest.MANIFEST, error) from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from training here; remove unfinished files of killed ones."""
        self.create()
        with exclusive_lock(self.lock, self._in_use_error):
            check_no_linked_folders(self.path)
            for stage in (self.path, self.refined.path):
                for name in RUN_SUBFOLDERS:
                    remove_part_files(stage / name)
            if not self.refined.path.exists():
                manifest.remove_folder_entries(self.path, self.refined.path.name)
            yield

    def in_use(self) -> bool:
        """Whether a process is training here now."""
        return self._owner() is not None

    def check_not_in_use(self) -> None:
        """Raise an error if a process is training here now."""
        if (owner := self._owner()) is not None:
            raise self._in_use_error(owner)

    def require_new(self) -> None:
        """Raise an error if the folder holds a run whose training has begun, or if a process is
        training here now.
        """
        self.check_not_in_use()
        if self.has_training():
            raise RunError(
                f"{self.path}: already holds a run; continue it with --resume, "
                "or train in another folder with --out"
            )

    def _owner(self) -> str | None:
        """The number of the process that holds the lock; None if none does."""
        try:
            handle = os.open(self.lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:  # there is no lock, or it cannot be read
            return None
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return lock_owner(handle)
        finally:
            os.close(handle)
        return None

    def _in_use_error(self, owner: str) -> RunError:
        return RunError(
            f"{self.path}: in use by another process (number {owner}): a training or a comparison "
            "is running there; wait for it, stop it, or use another folder with --out"
        )


def _digest_parts(raw: Raw) -> dict[str, str]:
    """Digests of a recipe's groups, independent of the layout of its file."""
    training = raw.get("training")
    parts = {**raw, "limit": training.get("max_tokens") if isinstance(training, dict) else None}
    return {
        name: manifest.sha256(json.dumps(group, sort_keys=True, default=str).encode())
        for name, group in parts.items()
        if isinstance(name, str)
    }


def load_data(folder: RunFolder) -> PreparedData:
    """The pairs that a run was trained on."""
    saved = folder.data / PREPARED_FILE
    if not saved.exists() or not run_spec(folder.path).pairs:
        recipe = folder.load_recipe()  # raises its own error if there is no such run
        if not TASKS[recipe.task].pairs:
            needed = " or ".join(tasks_of_pairs())
            raise wrong_task_error(folder.path, recipe.task, f"and this needs {needed}")
        if recipe.is_imported:
            raise RunError(
                f"{folder.path}: was imported and has no data; name files, as with --source"
            )
        raise RunError(f"{folder.path}: its data are gone: {saved} is missing")
    return load_prepared(folder.data)


@contextmanager
def _fitting(file: Path, folder: RunFolder) -> Iterator[None]:
    """Turn errors while the run's model is built or filled into one about its file of weights."""
    try:
        yield
    except (SettingsError, RuntimeError) as error:
        reason = abbreviate(str(error))
        raise RunError(f"{file}: does not fit the model of {folder.recipe}: {reason}") from None


def load_model(
    folder: RunFolder, file: Path, build: Callable[[], ModelT], adapter: str | None = None
) -> ModelT:
    """The model that `build` makes, with the weights in a file of a run, and an adapter merged into
    them if one is named; an error if the model is far larger than the weights or the memory.
    """
    weights = load_checked_weights(folder, file, adapter)
    with _fitting(file, folder):
        with memory_limit(MAX_SHARED_MODULES * sum(tensor.numel() for tensor in weights.values())):
            model = build()
        _load_into(model, weights)
    return model


def _load_into(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Fill a model with weights; a `SettingsError` says in one line which tensors do not fit."""
    try:
        model.load_state_dict(weights)
    except RuntimeError as error:
        raise SettingsError(describe_misfit(model.state_dict(), weights) or str(error)) from None


def describe_misfit(expected: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str:
    """How weights differ from those `expected`: for each kind of difference, the first tensor and
    the number of others; empty if all fit.
    """
    resized = [name for name in expected if name in given and _shape(expected, given, name)]
    found = {
        "missing": [name for name in expected if name not in given],
        "unknown": [name for name in given if name not in expected],
        "of another shape": [f"{name} ({_shape(expected, given, name)})" for name in resized],
    }
    return "; ".join(
        f"{way}: {names[0]}" + (f" and {counted(len(names) - 1, 'other')}" if names[1:] else "")
        for way, names in found.items()
        if names
    )


def _shape(expected: Mapping[str, Tensor], given: Mapping[str, Tensor], name: str) -> str:
    """How the shape of a tensor differs; empty if it does not."""
    wanted, found = (" × ".join(map(str, one[name].shape)) for one in (expected, given))
    return f"{found}, the model has {wanted}" if wanted != found else ""


def load_checked_weights(
    folder: RunFolder, file: Path, adapter: str | None = None
) -> dict[str, Tensor]:
    """The weights in a file of a run, with an adapter added if one is named; all must be finite."""
    loaded = load_weights(file)
    if adapter is not None:
        loaded = merge_adapter(folder.path, adapter, file, loaded)
    check_finite(file, loaded)
    return loaded


def find_weights(folder: RunFolder, weights: str) -> Path:
    """The file of a run's weights called `weights`; an error lists those that exist."""
    file = folder.weights(weights)
    if not file.is_file():
        if weights not in ("model", *NAMED_WEIGHTS):
            there = ", ".join(NAMED_WEIGHTS)
            raise RunError(f"{weights}: no such file of weights; there are model, {there}")
        reached = "a validation" if weights == "model" else "its end"
        raise RunError(
            f"{folder.path}: holds no weights {file.name} yet: its training has not "
            f"reached {reached}; continue with: regard train --resume --out {quoted(folder.path)}"
        )
    return file


def memory_limit(max_parameters: int | None = None) -> AbstractContextManager[None]:
    """A context in which building a model with more parameters than the memory holds, or than
    `max_parameters`, is an error.
    """
    in_memory = physical_memory() // BYTES_PER_PARAMETER
    return parameter_limit(min(in_memory, max_parameters or in_memory))


def count_parameters(model: nn.Module) -> int:
    """Elements of all parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())


def pick_device(name: str) -> torch.device:
    """The device of that name, initialized; "auto" is a GPU if there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise RunError(f"device {name!r} cannot be used here: {reason}; try cpu or auto") from None
    if device.type == "cuda":
        torch.set_float32_matmul_precision("high")  # TF32 in float32 matrix products
        torch.backends.cuda.enable_cudnn_sdp(False)  # see attention.attend.SDPA_BACKENDS
    return device


def describe_device(device: torch.device) -> str:
    """The name of a GPU, or the number of threads of a CPU."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' if threads > 1 else ''}"
