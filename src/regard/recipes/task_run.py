"""Load a trained run of any task; measure a run whose task has its own evaluation."""

import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from regard import __version__
from regard.atomic_io import write_atomic
from regard.json_files import dump_json
from regard.manifest import sha256_of_file
from regard.recipes.model_card import describe_weights
from regard.recipes.paths import find_adapter, wrong_task_error
from regard.recipes.run_folder import RunFolder, count_parameters, find_weights, load_model
from regard.recipes.task_table import TASKS
from regard.recipes.transfer.adapters import Adapter
from regard.recipes.transfer.start_run import RunStart
from regard.tasks.contracts import Evaluation
from regard.training.checkpoints import Progress


class TaskRun(NamedTuple):
    """A trained model with its recipe and task."""

    recipe: Any  # of the task's class of recipes
    task: Any  # an instance of its class in `TASKS`
    model: Any
    folder: RunFolder


def load_task_run(
    path: Path | str,
    task: str,
    *,
    device: torch.device,
    weights: str = "model",
    adapter: str | None = None,
) -> TaskRun:
    """The run of a `task` in a folder, ready to be used on `device`, with an adapter merged into
    its weights if one is named.
    """
    folder = RunFolder(Path(path))
    recipe = folder.load_any_recipe()
    if recipe.task != task:
        raise wrong_task_error(folder.path, recipe.task, f"not {task}")
    file = find_weights(folder, weights)
    run_task = TASKS[task](recipe, folder.path)
    run_task.load()
    model = load_model(folder, file, run_task.new_model, adapter)
    if adapter is not None:
        info = Adapter.load(find_adapter(folder.path, adapter)).info
        run_task.use_other_weights(info.temperature)
    elif weights != "model" and not _same_content(file, folder.weights("model")):
        run_task.use_other_weights(None)
    return TaskRun(recipe, run_task, model.to(device).eval(), folder)


def _same_content(file: Path, other: Path) -> bool:
    """Whether two files of weights are the same; the second may be missing."""
    return other.is_file() and sha256_of_file(file) == sha256_of_file(other)


def finish_task_run(folder: RunFolder, progress: Progress, device: torch.device) -> Evaluation:
    """Measure the run on its test data, or else its validation data, and write its card."""
    run = load_task_run(folder.path, folder.load_any_recipe().task, device=device)
    run.task.finish(run.model)
    if (temperature := run.task.fitted_temperature()) is not None:
        RunStart(run.recipe, folder).calibrate_adapter(temperature)
    found: Evaluation = run.task.evaluate(run.model, run.task.held_out())
    write_atomic(folder.scores, dump_json(found.to_json(), indent=1).encode())
    write_atomic(folder.card, "\n".join(_card(run, progress, found)).encode())
    return found


def _card(run: TaskRun, progress: Progress, found: Evaluation) -> Iterator[str]:
    recipe, training = run.recipe, run.recipe.training
    yield f"# {recipe.name}: {recipe.task}\n"
    if recipe.about:
        yield f"{recipe.about}\n"
    yield f"| on {found.split} | value |\n|---|---:|"
    for name, value in found.numbers.items():
        interval = found.intervals.get(name)
        span = f" ({interval.low:.6g} to {interval.high:.6g})" if interval else ""
        yield f"| {name} | {value:.6g}{span} |"
    yield "".join(f"\n{note}\n" for note in found.notes)
    yield "## Data\n"
    yield from (f"- {name}: {text}" for name, text in run.task.summary().items())
    yield "\n## Model\n"
    count = count_parameters(run.model)
    yield f"{recipe.model.family}, {count:,} parameters; `recipe.yaml` has every setting.\n"
    yield "## Training\n"
    if recipe.start is not None:
        yield from RunStart(recipe, run.folder).card_lines()
    yield f"- steps: {progress.step:,} in {progress.seconds:,.0f} s; seed: {training.seed}"
    yield f"- weights: {describe_weights(run.folder, progress)}, best in validation"
    yield f"- regard {__version__}, torch {torch.__version__}, {platform.machine()}\n"
