"""Rows of a comparison of tasks other than translation: trained, and measured by their task."""

from collections.abc import Iterator

from regard.comparison.measurements import RowScore, TaskRow, this_machine, today
from regard.comparison.plan import ComparisonFolder, ComparisonPlan, PlanEntry, check_finished
from regard.comparison.row_training import RowContext, is_trained, train_and_measure
from regard.errors import SettingsError
from regard.evaluation.scores import ScoreSettings, bootstrap, confidence_interval
from regard.json_files import dump_json, load_json
from regard.nested_values import Raw
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder, count_parameters
from regard.tasks.contracts import TaskRecipe
from regard.training.checkpoints import last_progress
from regard.training.loop import StopRequested

RESAMPLING = ScoreSettings()  # how many times, and with which seed


def corpus_name(recipe: TaskRecipe) -> str:
    """The name of a recipe's corpus in tables: its name, or its files."""
    raw: Raw = recipe.model_dump(mode="json")["corpus"]
    files = raw.get("train")
    if raw.get("name"):
        return str(raw["name"])
    if isinstance(files, list) and all(isinstance(file, str) for file in files):
        return ", ".join(files)
    return dump_json({key: value for key, value in raw.items() if value})


def train_task_row(row: RowContext, stop_requested: StopRequested) -> None:
    """Train or resume the run of a row, or one that rows start from, until a stop is requested."""
    if row.entry.run is not None:
        check_finished(row.run)
    if is_trained(row.entry, row.folder):
        return
    train_and_measure(row, _with_start(row.entry, row.plan, row.folder), stop_requested)


def _with_start(entry: PlanEntry, plan: ComparisonPlan, folder: ComparisonFolder) -> TaskRecipe:
    """The recipe of a row, which starts from the run that the comparison trained for it, if any."""
    start = plan.start_of(entry)
    if start is None:
        return entry.recipe
    run = folder.run(start)
    if not run.finished():
        raise SettingsError(f"its start, {start.label}, was not trained: see {folder.log(start)}")
    return entry.recipe.with_values({"start.run": str(run.path)})


def measure_task_row(row: RowContext) -> TaskRow:
    """Measure the trained run of a row, and save the numbers."""
    run = open_run(row.run.path, tasks=[row.entry.recipe.task], device=row.device)
    split = run.task.held_out()
    row.reporter.noted(f"measuring on {split}")
    metric, counts, digest = run.task.statistics(run.model, split)
    value, drawn, _ = bootstrap(metric, counts, RESAMPLING)
    low, high = confidence_interval(drawn)
    signature = metric.signature(RESAMPLING.resamples, RESAMPLING.seed)
    progress = last_progress(row.run.path)
    assert progress is not None  # a trained run has a checkpoint
    measured = TaskRow(
        label=row.entry.label,
        seed=row.entry.seed,
        corpus=corpus_name(row.entry.recipe),
        family=run.recipe.inner_model().family,
        parameters=count_parameters(run.model),
        steps=progress.step,
        seconds=progress.seconds,
        start_seconds=sum(_start_seconds(row.entry, row.plan, row.folder)),
        split=split,
        examples=len(counts),
        digest=digest,
        score=RowScore(name=metric.name, value=value, low=low, high=high, signature=signature),
        lower_is_better=metric.lower_is_better,
        drawn=tuple(drawn.tolist()),
        numbers=_saved_numbers(row.run),
        machine=this_machine(row.device),
        date=today(),
    )
    measured.save(row.folder.row(row.entry))
    return measured


def _start_seconds(
    entry: PlanEntry, plan: ComparisonPlan, folder: ComparisonFolder
) -> Iterator[float]:
    """The training seconds of the runs that a row started from, as far as they are in this
    folder.
    """
    while (start := plan.start_of(entry)) is not None:
        progress = last_progress(folder.run(start).path)
        yield progress.seconds if progress is not None else 0.0
        entry = start


def _saved_numbers(run: RunFolder) -> dict[str, float]:
    """The numbers that were measured at the end of training."""
    advice = "measure it again: regard evaluate"
    saved = load_json(run.scores, dict[str, object], advice=advice)
    return {name: float(x) for name, x in saved.items() if isinstance(x, int | float)}
