"""A recipe of any task -> a trained model: checks, data, model, the training loop, and a second
stage if the recipe has one.
"""

from collections.abc import Collection
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple, Protocol

import torch

from regard.atomic_io import write_atomic
from regard.errors import RunError, SettingsError
from regard.manifest import check_file
from regard.models.contracts import AnyModel
from regard.recipes.open_run import new_task
from regard.recipes.run_folder import (
    COMPARISON_PLAN_FILE,
    FIRST_WEIGHTS_FILE,
    RunFolder,
    memory_limit,
)
from regard.recipes.transfer.start_run import RunStart, resolve_start
from regard.tasks.contracts import AnyTrainableTask, Notify, TaskRecipe
from regard.training.checkpoints import Progress, last_progress, load_weights
from regard.training.distributed.ranks import ALONE, Ranks
from regard.training.gpu.cuda_graph_step import require_cuda_graphs
from regard.training.layer_groups import keep_trainable
from regard.training.loop import Reporter, StopRequested, TrainingTask, fit, is_finished
from regard.training.optimizer import check_trainable
from regard.training.settings import TrainingSettings
from regard.training.weight_transfer import WeightTransfer

CHANGEABLE_GROUPS = ("name", "about", "training", "decoding", "evaluation", "input")
"""Groups of a recipe that may change in a run that has checkpoints, besides the group of a second
stage.
"""


class RunReporter(Reporter, Protocol):
    """Shows the progress of a run, from the first file read."""

    def prepared(self, task: AnyTrainableTask, model: AnyModel) -> None: ...
    def transferred(self, run: str, transfer: WeightTransfer) -> None: ...
    def second_stage(self, group: str, steps: int) -> None: ...


def train(
    recipe: TaskRecipe,
    folder: RunFolder,
    *,
    device: torch.device,
    reporter: RunReporter,
    stop_requested: StopRequested,
    ranks: Ranks = ALONE,
) -> Progress:
    """Train the recipe's model in `folder`, from its last checkpoint if there is one.

    A second stage has its own folder; once it has begun, the first cannot continue. With several
    `ranks`, each calls this with the same arguments; only rank 0 reads `recipe` and writes.
    """
    if (folder.path / COMPARISON_PLAN_FILE).exists():
        raise RunError(f"{folder.path}: holds a comparison; train in another folder with --out")
    if recipe.training.capture is True:
        require_cuda_graphs(device)  # before a corpus is read, which may take an hour
    if ranks.count > 1 and recipe.training.sharded and recipe.second_stage_settings() is not None:
        raise SettingsError(
            f"{recipe.second_stage_group} needs complete weights, and training.sharded divides "
            "them among the devices: leave out one of the two"
        )
    recipe = resolve_start(recipe)
    with folder.locked() if ranks.leads else nullcontext():
        task = ranks.made_by_first(
            lambda: _prepare(recipe, folder, device, reporter.noted),
            lambda: _prepared_elsewhere(folder, device, reporter.noted),
        )
        recipe = task.recipe
        start = RunStart(recipe, folder) if recipe.start is not None else None
        settings, new_weights = recipe.training, frozenset[str]()
        torch.manual_seed(settings.seed)
        with memory_limit():
            model = task.new_model().to(device)
        task.check_model(model, reporter.noted)
        check_trainable(model, settings.optimizer, settings.fine_tuning)
        reporter.prepared(task, model)
        if start is not None and recipe.start is not None:
            load = partial(start.load, model, task.row_names(), task.initialize)
            transfer = ranks.made_by_first(load, load)
            reporter.transferred(str(recipe.start.run), transfer)
            new_weights = transfer.new_names
            if lacking := start.lacks_adapter():
                reporter.noted(lacking)
        elif ranks.leads and not folder.has_whole_checkpoint():
            task.initialize(model)  # the loop sends these weights to the other ranks
        if settings.schedule.warmup_steps > settings.steps:
            reporter.noted(warmup_warning(settings))
        stages = _Stages(recipe, model, folder, reporter, stop_requested, ranks)
        progress = stages.first(task, new_weights)
        if recipe.second_stage_settings() is not None and not stages.stopped():
            stages.second(task)
        if start is not None and ranks.leads and is_finished(progress, settings):
            start.save_adapter(task.origin(), reporter.noted)
        return progress


def _prepare(
    recipe: TaskRecipe, folder: RunFolder, device: torch.device, note: Notify
) -> AnyTrainableTask:
    """The task of a run, with its data and every setting written into the folder."""
    start = None if recipe.start is None else RunStart(recipe, folder)
    resumed = folder.has_checkpoints() or (start is not None and start.kept)
    if resumed:
        saved = folder.load_recipe()
        recipe = recipe.resumed_from(saved)
        _check_resumable(recipe, saved, folder)
    folder.mark_unfinished()
    folder.save_recipe(recipe)
    task = new_task(recipe, folder)
    task.device = device
    if start is not None and not resumed:
        start.give_names(task)
    task.prepare(note, resumed=resumed)
    if task.recipe != recipe:
        folder.save_recipe(task.recipe)  # before the first checkpoint: resuming keeps all choices
    task.record()
    return task


def _prepared_elsewhere(folder: RunFolder, device: torch.device, note: Notify) -> AnyTrainableTask:
    """The task of a run that another process has just prepared."""
    recipe = folder.load_recipe()
    task = new_task(recipe, folder)
    task.device = device
    task.prepare(note, resumed=True)
    return task


class _Stages(NamedTuple):
    """What the stages of training share."""

    recipe: TaskRecipe
    model: AnyModel
    folder: RunFolder
    reporter: RunReporter
    stop_requested: StopRequested
    ranks: Ranks

    def stopped(self) -> bool:
        """Whether some rank has been asked to stop."""
        return self.ranks.any(self.stop_requested())

    def first(self, task: AnyTrainableTask, new_weights: Collection[str]) -> Progress:
        """Train, unless a second stage has begun; `new_weights` are those that were not taken from
        the run that training started from.
        """
        has_second = self.recipe.second_stage_settings() is not None
        if has_second and self.ranks.from_first(self.folder.refined.has_checkpoints):
            progress = last_progress(self.folder.path)
            if progress is not None:
                return progress
        training = task.training(self.model)._replace(new_weights=new_weights)
        return self._fit(training, self.recipe.training, self.folder)

    def second(self, task: AnyTrainableTask) -> None:
        """Continue from the final weights of training; the best ones become the run's model."""
        stage = task.second_stage(self.model)
        assert stage is not None
        refined, model_file = self.folder.refined, self.folder.weights("model")
        self.reporter.second_stage(str(self.recipe.second_stage_group), stage.settings.steps)
        first = refined.path / "weights" / FIRST_WEIGHTS_FILE

        def keep_first_weights() -> None:
            if not refined.has_checkpoints():
                check_file(model_file)
                write_atomic(first, model_file.read_bytes())

        self.ranks.from_first(keep_first_weights)
        self.model.load_state_dict(load_weights(first))
        torch.manual_seed(stage.settings.seed)
        progress = self._fit(stage.training, stage.settings, refined)
        if self.stopped() or not self.ranks.leads:
            return
        write_atomic(model_file, refined.weights("model").read_bytes())
        if progress.best[0][1] == 0:
            self.reporter.noted(stage.no_gain)

    def _fit(self, task: TrainingTask, settings: TrainingSettings, folder: RunFolder) -> Progress:
        with keep_trainable(self.model):  # each stage freezes its own parts
            return fit(
                self.model,
                task,
                settings,
                folder=folder.path,
                width=self.recipe.model.width,
                reporter=self.reporter,
                stop_requested=self.stop_requested,
                ranks=self.ranks,
            )


def warmup_warning(settings: TrainingSettings) -> str:
    """The warning for a warm-up that is longer than training."""
    return (
        f"the warm-up of {settings.schedule.warmup:,} steps is longer than the {settings.steps:,} "
        "steps of training: the learning rate never reaches its peak; lower "
        "training.schedule.warmup, to about a tenth of the steps"
    )


def _check_resumable(recipe: TaskRecipe, saved: TaskRecipe, folder: RunFolder) -> None:
    """An error unless the new recipe can resume the run in `folder`, which has `saved`."""
    stage = recipe.second_stage_group
    for group in type(recipe).model_fields:
        same = getattr(saved, group, None) == getattr(recipe, group)
        if group not in (*CHANGEABLE_GROUPS, stage) and not same:
            raise SettingsError(
                f"{folder.path}: its run was started with another {group}, which can no longer "
                "change; train a new run in another folder with --out"
            )
    if saved.training != recipe.training:
        if folder.refined.has_checkpoints():
            raise SettingsError(
                f"{folder.path}: its {stage} has started from the final weights of training, "
                f"whose settings can no longer change; delete {folder.refined.path} to train on"
            )
        _check_changed_stage(folder, saved.training, recipe.training, "training")
    before, after = saved.second_stage_settings(), recipe.second_stage_settings()
    changed = stage is not None and getattr(saved, stage) != getattr(recipe, stage)
    if changed and before is not None and after is not None:
        _check_changed_stage(folder.refined, before, after, str(stage))
    recipe.check_resumable(saved, folder.path)


def _check_changed_stage(
    folder: RunFolder, before: TrainingSettings, after: TrainingSettings, group: str
) -> None:
    """Raise an error if changed settings have no effect, ask for fewer steps than are done, or
    choose weights by another score than before.
    """
    progress = last_progress(folder.path)
    if progress is None:
        return
    if after.steps < progress.step:
        raise SettingsError(
            f"{folder.path}: {progress.step:,} steps of its {group} are done, more than "
            f"{after.steps:,}; give {group}.steps={progress.step} or more"
        )
    was, now = (getattr(stage.validation, "by", None) for stage in (before, after))
    if progress.best and was != now:
        raise SettingsError(
            f"{folder.path}: its weights are chosen by {was}, which cannot be compared to {now}: "
            f"leave {group}.validation.by unchanged, or train a new run in another folder with "
            "--out"
        )
    if is_finished(progress, before) and is_finished(progress, after):
        raise SettingsError(
            f"{folder.path}: its {group} ended after {progress.step:,} steps; other settings would "
            f"have no effect; to continue, raise {group}.steps, or its patience if that ended it"
        )
