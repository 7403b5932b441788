"""A recipe of any task -> a trained and measured run, and its pipeline."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import torch

from regard.interruption import InterruptedBySignal
from regard.json_files import dump_json
from regard.models.contracts import AnyModel
from regard.pipelines.load import load_for_look
from regard.recipes import train_run
from regard.recipes.finish_run import finish_run
from regard.recipes.paths import RUNS
from regard.recipes.recipe_files import load_recipe
from regard.recipes.run_folder import RunFolder, count_parameters, pick_device
from regard.recipes.transfer.start_run import resolve_start
from regard.tasks.contracts import AnyTrainableTask, TaskRecipe
from regard.tasks.translation.auto_settings import format_choices
from regard.training.signals import StopRequests
from regard.training.weight_transfer import WeightTransfer


def train(
    recipe: str | Path,
    *,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    resume: bool = False,
    device: str = "auto",
    tell: Callable[[str], None] = print,
) -> Any:
    """Train a run, score it and write its card, as `regard train` does; returns its pipeline.

    `recipe` is the name of a built-in recipe, or a YAML file; `out` is the run's folder, by default
    `runs/NAME`. `settings` replace those of the recipe by their dotted names, such as
    `{"training.steps": 100}`: settings of `corpus` name your own files, and `start.run` a run to
    start from. If the folder has a run, `resume` continues it, or loads it if it is finished;
    without `resume` that is an error. `tell` is called with lines of progress. Ctrl-C finishes the
    step and saves before it interrupts.
    """
    changes = [f"{name}={dump_json(value)}" for name, value in (settings or {}).items()]
    loaded = load_recipe(recipe, changes)
    folder = RunFolder(Path(out) if out is not None else RUNS / loaded.name)
    if resume and folder.exists():
        loaded = folder.load_recipe(changes)
        done = folder.finished() and loaded == folder.load_recipe()
    else:
        folder.require_new()
        loaded, done = resolve_start(loaded, changes), False
    if not done:
        _train_and_finish(loaded, folder, pick_device(device), tell)
    return load_for_look(folder.path, device=device)


def _train_and_finish(
    recipe: TaskRecipe, folder: RunFolder, device: torch.device, tell: Callable[[str], None]
) -> None:
    in_main = current_thread() is main_thread()  # other threads cannot handle signals
    with StopRequests() if in_main else nullcontext() as stop:
        progress = train_run.train(
            recipe,
            folder,
            device=device,
            reporter=_LineReporter(tell),
            stop_requested=stop or (lambda: False),
        )
    if stop is not None and stop.received is not None:
        raise InterruptedBySignal(stop.received)
    evaluation = finish_run(folder, progress, device)
    tell(f"{folder.path}: {evaluation.split}: {_format(evaluation.numbers.items())}")


def _format(numbers: Iterable[tuple[str, float]]) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in numbers)


class _LineReporter:
    """Reports data, model and validations, a line each."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.noted = tell

    def prepared(self, task: AnyTrainableTask, model: AnyModel) -> None:
        data = "; ".join(f"{name}: {text}" for name, text in task.summary().items())
        self.noted(f"{data}; {count_parameters(model):,} parameters")
        report = task.cleaning_report()
        for row in () if report is None else report.rows():
            self.noted(f"dropped {row.num_pairs:,} ({row.share:.2%}): {row.reason}")
        for line in (*format_choices(task.choices()), *task.warnings()):
            self.noted(line)

    def transferred(self, run: str, transfer: WeightTransfer) -> None:
        self.noted(f"initialised from {run}: {len(transfer.taken):,} tensors")

    def second_stage(self, group: str, steps: int) -> None:
        self.noted(f"{group}: {steps:,} steps")

    def logged(self, step: int, numbers: Mapping[str, float]) -> None: ...

    def validated(self, step: int, numbers: Mapping[str, float], *, best: bool) -> None:
        self.noted(f"step {step:,}: {_format(numbers.items())}{', best so far' if best else ''}")
