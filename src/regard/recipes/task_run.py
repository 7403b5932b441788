"""A recipe of any task but translation -> a trained, evaluated run; and loading it."""

import platform
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch

from regard import __version__
from regard.atomic_io import write_atomic
from regard.errors import SettingsError
from regard.json_files import dump_json
from regard.models.build import parameter_limit
from regard.models.contracts import AnyModel
from regard.recipes.memory import physical_memory
from regard.recipes.model_card import describe_weights
from regard.recipes.paths import wrong_task_error
from regard.recipes.run_folder import (
    BYTES_PER_PARAMETER,
    MAX_SHARED_MODULES,
    PREPARED_FILE,
    RunFolder,
    count_parameters,
    find_weights,
    fitting,
    load_checked_weights,
    load_into,
)
from regard.recipes.task_table import TASKS
from regard.recipes.train_run import check_changed_stage, warmup_warning
from regard.recipes.transfer.start_run import RunStart, resolve_start
from regard.tasks.contracts import AnyTask, Evaluation, Notify, TaskRecipe
from regard.training.checkpoints import Progress
from regard.training.distributed.ranks import ALONE, Ranks
from regard.training.gpu.cuda_graph_step import require_cuda_graphs
from regard.training.loop import Reporter, StopRequested, fit, is_finished
from regard.training.weight_transfer import WeightTransfer

CHANGEABLE_GROUPS = ("name", "about", "training", "decoding", "evaluation")
"""Groups of a recipe that may change in a run that has checkpoints."""


class TaskReporter(Reporter, Protocol):
    """Shows how a run goes, from the first file read."""

    def described(self, summary: dict[str, str], model: AnyModel) -> None: ...
    def transferred(self, run: str, transfer: WeightTransfer) -> None: ...


class TaskRun(NamedTuple):
    """A trained model with its recipe and task."""

    recipe: Any  # of the task's class of recipes
    task: Any  # of the class that `TASKS` has for it
    model: Any
    folder: RunFolder


def train_task(
    recipe: TaskRecipe,
    folder: RunFolder,
    *,
    device: torch.device,
    reporter: TaskReporter,
    stop_requested: StopRequested,
    ranks: Ranks = ALONE,
) -> Progress:
    """Train the recipe's model in `folder`, from its last checkpoint if there is one.

    Each of several `ranks` calls it alike; rank 0 alone reads `recipe`, and writes.
    """
    if recipe.training.capture is True:
        require_cuda_graphs(device)
    recipe = resolve_start(recipe)
    with folder.locked() if ranks.leads else nullcontext():
        task = ranks.made_by_first(
            lambda: _prepare(recipe, folder, reporter.noted),
            lambda: _prepared_elsewhere(folder, reporter.noted),
        )
        recipe, summary = task.recipe, task.summary()
        start = RunStart(recipe, folder) if recipe.start is not None else None
        settings = recipe.training
        torch.manual_seed(settings.seed)
        with parameter_limit(physical_memory() // BYTES_PER_PARAMETER):
            model = task.new_model().to(device)
        reporter.described(summary, model)
        if start is not None and recipe.start is not None:
            load = partial(start.load, model, task.row_names())
            reporter.transferred(str(recipe.start.run), ranks.made_by_first(load, load))
        if settings.schedule.warmup_steps > settings.steps:
            reporter.noted(warmup_warning(settings))
        progress = fit(
            model,
            task.training(model),
            settings,
            folder=folder.path,
            width=recipe.model.width,
            reporter=reporter,
            stop_requested=stop_requested,
            ranks=ranks,
        )
        if start is not None and ranks.leads and is_finished(progress, settings):
            start.save_adapter("; ".join(summary.values()), reporter.noted)
        return progress


def _prepare(recipe: TaskRecipe, folder: RunFolder, note: Notify) -> AnyTask:
    """The task of a run, with its data and settings written into the folder."""
    start = None if recipe.start is None else RunStart(recipe, folder)
    resumed = folder.has_checkpoints() or (start is not None and start.kept)
    if resumed:
        _check_resumable(recipe, folder)
    folder.mark_unfinished()
    folder.save_recipe(recipe)
    task: AnyTask = TASKS[recipe.task](recipe, folder.path)
    if start is not None and not resumed:
        start.give_names(task)
    task.prepare(note, resumed=resumed)
    described = dump_json({"task": recipe.task, **task.summary()})
    write_atomic(folder.data / PREPARED_FILE, described.encode())
    return task


def _prepared_elsewhere(folder: RunFolder, note: Notify) -> AnyTask:
    """The task of a run that another process has just prepared."""
    recipe = folder.load_any_recipe()
    task: AnyTask = TASKS[recipe.task](recipe, folder.path)
    task.prepare(note, resumed=True)
    return task


def _check_resumable(recipe: TaskRecipe, folder: RunFolder) -> None:
    """An error unless the new recipe can resume the run in `folder`."""
    saved = folder.load_any_recipe()
    for group in type(recipe).model_fields:
        old, new = getattr(saved, group, None), getattr(recipe, group)
        if group not in CHANGEABLE_GROUPS and old != new:
            raise SettingsError(
                f"{folder.path}: its run was begun with another {group}, which cannot change any "
                "more; train a new run in another folder with --out"
            )
    if saved.training != recipe.training:
        check_changed_stage(folder, saved.training, recipe.training, "training")


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
    loaded = load_checked_weights(folder, file, adapter)
    room = MAX_SHARED_MODULES * sum(tensor.numel() for tensor in loaded.values())
    run_task = TASKS[task](recipe, folder.path)
    run_task.load()
    with fitting(file, folder):
        with parameter_limit(min(room, physical_memory() // BYTES_PER_PARAMETER)):
            model = run_task.new_model()
        load_into(model, loaded)
    return TaskRun(recipe, run_task, model.to(device).eval(), folder)


def finish_task_run(folder: RunFolder, progress: Progress, device: torch.device) -> Evaluation:
    """Measure the run on its test data, or its validation data without any, and write its card."""
    run = load_task_run(folder.path, folder.load_any_recipe().task, device=device)
    run.task.finish(run.model)
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
