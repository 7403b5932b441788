"""The measurements and the card of a run whose task has its own evaluation."""

import filecmp
import platform
from collections.abc import Iterator

import torch

from regard import __version__
from regard.atomic_io import write_atomic
from regard.json_files import dump_json
from regard.recipes.open_run import Run, open_run
from regard.recipes.run_folder import FIRST_WEIGHTS_FILE, RunFolder, count_parameters
from regard.recipes.transfer.start_run import RunStart
from regard.tasks.contracts import Evaluation
from regard.training.checkpoints import Progress


def finish_task_run(folder: RunFolder, progress: Progress, device: torch.device) -> Evaluation:
    """Measure the run on its test data, or else its validation data, and write its card."""
    run = open_run(folder.path, device=device)
    run.task.finish(run.model)
    if (temperature := run.task.fitted_temperature()) is not None:
        RunStart(run.recipe, folder).calibrate_adapter(temperature)
    found: Evaluation = run.task.evaluate(run.model, run.task.held_out())
    write_atomic(folder.scores, dump_json(found.to_json(), indent=1).encode())
    write_atomic(folder.card, "\n".join(_card(run, progress, found)).encode())
    return found


def _card(run: Run, progress: Progress, found: Evaluation) -> Iterator[str]:
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


def describe_weights(folder: RunFolder, progress: Progress) -> str:
    """The steps whose weights training ended with: the mean of the best ones, or the best alone."""
    trained = folder.refined.path / "weights" / FIRST_WEIGHTS_FILE
    used = trained if trained.is_file() else folder.weights("model")
    best = folder.weights("best")
    is_best = used.is_file() and best.is_file() and filecmp.cmp(used, best, shallow=False)
    steps = [f"{step:,}" for _, step in (progress.best[:1] if is_best else progress.best)]
    what = "the mean of those of steps" if len(steps) > 1 else "those of step"
    return f"{what} {' and '.join(steps)}"
