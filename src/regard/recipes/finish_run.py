"""The end of training: a run is measured on held-out data, and its card is written."""

import filecmp
import platform
from collections.abc import Iterator

import torch

from regard import __version__
from regard.atomic_io import write_atomic
from regard.json_files import dump_json
from regard.recipes.open_run import Run, open_run
from regard.recipes.run_folder import (
    FIRST_WEIGHTS_FILE,
    RunFolder,
    count_parameters,
    describe_device,
)
from regard.recipes.transfer.start_run import RunStart
from regard.tasks.contracts import Evaluation
from regard.training.checkpoints import Progress


def finish_run(folder: RunFolder, progress: Progress, device: torch.device) -> Evaluation:
    """Measure the run on its test data, or else its validation data, and write its card."""
    run = open_run(folder.path, device=device)
    run.task.finish(run.model)
    if (temperature := run.task.fitted_temperature()) is not None:
        RunStart(run.recipe, folder).calibrate_adapter(temperature)
    evaluation: Evaluation = run.spec.evaluator().after_training(run)
    write_atomic(folder.scores, dump_json(evaluation.to_json(), indent=1).encode())
    write_card(run, progress, evaluation)
    return evaluation


def write_card(run: Run, progress: Progress, evaluation: Evaluation) -> None:
    """Write the run's `card.md`."""
    write_atomic(run.folder.card, "\n".join(_card(run, progress, evaluation)).encode())


def _card(run: Run, progress: Progress, evaluation: Evaluation) -> Iterator[str]:
    recipe, parts = run.recipe, run.task.card()
    yield f"# {recipe.name}: {parts.title}\n"
    if recipe.about:
        yield f"{recipe.about}\n"
    yield from evaluation.card_lines()
    yield "## Data\n"
    yield from parts.data
    yield "\n## Model\n"
    count = count_parameters(run.model)
    yield f"{recipe.model.family}, {count:,} parameters; `recipe.yaml` has every setting.\n"
    yield "## Training\n"
    if recipe.start is not None:
        yield from RunStart(recipe, run.folder).card_lines()
    yield f"- steps: {progress.step:,} in {progress.seconds:,.0f} s; seed: {recipe.training.seed}"
    yield f"- weights: {_describe_weights(run.folder, progress)}, {parts.selection}"
    yield from parts.training
    device = next(run.model.parameters()).device
    where = f", {describe_device(device).replace('cpu', 'CPU', 1)}" if parts.usage else ""
    yield f"- regard {__version__}, torch {torch.__version__}, {platform.machine()}{where}\n"
    if parts.usage:
        yield f"## Use\n\n```\n{run.spec.use_command('DIR')}\n```\n"


def _describe_weights(folder: RunFolder, progress: Progress) -> str:
    """The steps whose weights training ended with: the mean of the best ones, or the best alone."""
    trained = folder.refined.path / "weights" / FIRST_WEIGHTS_FILE
    used = trained if trained.is_file() else folder.weights("model")
    best = folder.weights("best")
    is_best = used.is_file() and best.is_file() and filecmp.cmp(used, best, shallow=False)
    steps = [f"{step:,}" for _, step in (progress.best[:1] if is_best else progress.best)]
    what = "the mean of those of steps" if len(steps) > 1 else "those of step"
    return f"{what} {' and '.join(steps)}"
