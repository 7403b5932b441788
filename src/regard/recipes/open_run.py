"""Trained runs of any task, opened for use."""

from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard.batching.malloc_tuning import limit_onednn_caches
from regard.layers.quantized import NativePrecision, quantize
from regard.manifest import sha256_of_file
from regard.recipes.paths import find_adapter, wrong_task_error
from regard.recipes.run_folder import (
    RunFolder,
    count_parameters,
    find_weights,
    load_model,
)
from regard.recipes.transfer.adapters import Adapter
from regard.tasks.contracts import AnyTrainableTask, TaskRecipe
from regard.tasks.registry import TASKS
from regard.tasks.spec import TaskSpec
from regard.text.build import Tokenizers


class LoadedFrom(NamedTuple):
    """How a run was loaded, so that another process can load the same."""

    path: Path
    weights: str
    precision: NativePrecision
    stamp: tuple[int, int]  # time, in ns, and size of the file of weights
    adapter: str | None = None  # the adapter that was merged into them


class Run(NamedTuple):
    """A trained model with its recipe and its task, which has vocabularies, labels and scales."""

    recipe: Any  # of the class of the task's recipes
    task: Any  # an instance of the task's class
    model: Any
    folder: RunFolder
    loaded_from: LoadedFrom | None = None  # None if it was not loaded, or changed since

    def __repr__(self) -> str:
        count = count_parameters(self.model)
        return f"<Run {self.folder.path}, {self.recipe.model.family} of {count:,} parameters>"

    @property
    def spec(self) -> TaskSpec:
        """The row of its task in the registry."""
        return TASKS[self.recipe.task]

    @property
    def tokenizers(self) -> Tokenizers:
        """The vocabularies of a task that writes texts."""
        tokenizers: Tokenizers = self.task.tokenizers
        return tokenizers

    @property
    def longest(self) -> int:
        """The most tokens of a text that the model was trained on and has positions for."""
        most: int = min(self.recipe.training.max_tokens, (self.model.max_length or 1 << 30) - 1)
        return most


def open_run(
    path: Path | str,
    *,
    device: torch.device,
    weights: str = "model",
    precision: NativePrecision = "float32",
    adapter: str | None = None,
    tasks: Collection[str] = (),
) -> Run:
    """The run in a folder, ready to be used on `device`, with its matrices in a `precision`, and
    with an adapter merged into its weights if one is named; an error if it is of none of the
    `tasks`, if there are any.
    """
    folder = RunFolder(Path(path))
    recipe = folder.load_recipe()
    if tasks and recipe.task not in tasks:
        raise wrong_task_error(folder.path, recipe.task, f"not {' or '.join(tasks)}")
    file = find_weights(folder, weights)
    run_task = new_task(recipe, folder)
    run_task.load()
    stamp = (file.stat().st_mtime_ns, file.stat().st_size)
    model = load_model(folder, file, run_task.new_model, adapter)
    if adapter is not None:
        info = Adapter.load(find_adapter(folder.path, adapter)).info
        run_task.use_other_weights(info.temperature)
    elif weights != "model" and not _same_content(file, folder.weights("model")):
        run_task.use_other_weights(None)
    if precision == "bfloat16" and device.type == "cpu":
        limit_onednn_caches()
    quantize(model.to(device).eval(), precision)
    loaded_from = LoadedFrom(folder.path.absolute(), weights, precision, stamp, adapter)
    return Run(recipe, run_task, model, folder, loaded_from)


def new_task(recipe: TaskRecipe, folder: RunFolder) -> AnyTrainableTask:
    """The task of a recipe, for the run in a folder."""
    return TASKS[recipe.task].task()(recipe, folder.path)


def _same_content(file: Path, other: Path) -> bool:
    """Whether two files of weights are the same; the second may be missing."""
    return other.is_file() and sha256_of_file(file) == sha256_of_file(other)
