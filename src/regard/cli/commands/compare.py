"""`regard compare`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from typer import Argument, Option, Typer

from regard.atomic_io import write_atomic
from regard.cli.display.compare_view import ComparisonProgress, print_comparison
from regard.cli.display.console import note, print_json
from regard.cli.display.figures import missing_fonts_noted
from regard.cli.display.training_progress import TerminalReporter
from regard.cli.options import corpus_options, score_options, shared_options
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.measurements import measure_row, measure_untimed
from regard.comparison.plan import (
    Budget,
    ComparisonPlan,
    PlanEntry,
    check_same_plan,
    entries_of,
    entry_of_run,
    make_plan,
)
from regard.comparison.plots import plot_by_length, plot_quality_cost
from regard.comparison.process_pool import (
    Goal,
    die_with_parent,
    run_rows,
    start_process,
    untrained_entries,
)
from regard.comparison.results import ComparisonResults, aggregate_results
from regard.comparison.row_training import apply_budget, train_row
from regard.comparison.shared_corpus import prepare_shared_corpus
from regard.comparison.table import format_report
from regard.errors import RegardError, SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice
from regard.inspection.plots.figure import save_figure
from regard.recipes.prepared_data import PreparedData
from regard.recipes.recipe_files import shelf_recipes
from regard.recipes.run_folder import RunFolder, pick_device
from regard.training.signals import StopRequests

app = Typer()

DEFAULT_BEAM = 5
"""Default beam of every row's search."""
MAX_MINUTES = 1e6
"""Upper limit; rejects infinity."""
MAX_SEED = 2**63 - 1
"""The largest seed of torch."""


@app.command()
def command(
    systems: list[str] | None = Argument(
        None,
        metavar="[NAME=]RECIPE|RUN...",
        help="Recipes of the shelf or YAML files, which are trained, and folders of finished "
        "runs, which are taken as they are; a comparison's folder stands for all of its. NAME "
        "is what the table calls it.",
    ),
    out_folder: Path = Option(
        Path("ladder"), "--out", "-o", metavar="DIR", help="Where the comparison goes."
    ),
    steps: int | None = Option(None, min=1, help="Train each for so many steps."),
    tokens: int | None = Option(None, min=1, help="Train each on so many target tokens."),
    minutes: float | None = Option(
        None,
        min=0.001,
        max=MAX_MINUTES,
        help="Train each for so many minutes, by timing some steps first.",
    ),
    seeds: str | None = Option(None, metavar="N,N,...", help="Train each recipe with these seeds."),
    seeds_for: list[str] | None = Option(
        None, metavar="NAME=N,N,...", help="Other seeds for one of them; may be repeated."
    ),
    corpus: str | None = Option(
        None, metavar="NAME", help="A corpus (`regard corpora`) in place of the recipes'."
    ),
    data: corpus_options.Data = None,
    source: corpus_options.Source = None,
    target: corpus_options.Target = None,
    valid: corpus_options.Valid = None,
    test: corpus_options.Test = None,
    languages: corpus_options.Languages = None,
    skip_bad: corpus_options.SkipBad = False,
    settings: shared_options.Settings = None,
    beam: int | None = Option(
        None, min=1, help=f"Hypotheses kept at each step of all searches, else {DEFAULT_BEAM}."
    ),
    tokenize: TokenizerChoice = Option(
        "auto",
        help="How BLEU cuts lines into words, by sacreBLEU's names; none: at spaces; auto: by "
        "the target language.",
    ),
    jobs: int = Option(1, min=1, help="Rows trained at once; measured they are one by one."),
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
    row: str | None = Option(None, hidden=True),
    goal: Goal = Option("measure", hidden=True),
    parent: int | None = Option(None, hidden=True),
) -> None:
    """Train several systems alike, then score and time them in one table.

    All learn from one corpus under one budget (otherwise as long as their recipes say), with each
    of the seeds. DIR then holds the table (ladder.md, ladder.json), its figures, and every run.
    Stopped or killed, the same command goes on where it was; so does `regard compare --out DIR`,
    which draws a finished comparison again.

    Examples:

        regard compare travel-rnn travel-rnnsearch travel --steps 1000 --out ladders/travel
        regard compare multi30k big.yaml runs/older --seeds 1,2,3 --jobs 4 --out ladders/mine
        regard compare --out ladders/mine
    """
    folder = ComparisonFolder(out_folder)
    if row is not None:
        if parent is not None:
            die_with_parent(parent)
        _run_row(folder, row, goal, device)
        return
    given = corpus_options.CorpusFiles(data, source, target, skip_bad)
    files = corpus_options.corpus_from_options(given, valid, test, languages)
    if corpus is not None and files is not None:
        raise SettingsError("--corpus and files of your own exclude each other: drop one of them")
    training_options = _TrainingOptions(
        _budget({"steps": steps, "tokens": tokens, "minutes": minutes}),
        seeds,
        seeds_for or [],
        {"name": corpus} if corpus is not None else files,
        settings or [],
    )
    plan = _plan(systems or [], training_options, folder, beam=beam, tokenize=tokenize)
    pick_device(device)  # raises an error early
    ladder = _compare(plan, folder, device=device, jobs=jobs)
    if json:
        print_json(ladder.model_dump(mode="json"))
    else:
        print_comparison(ladder)
        figures = "by-length.png, quality-cost.png (and .svg), " if ladder.rows else ""
        note(f"all of it is in {folder.path}: ladder.md, ladder.json, {figures}logs/, runs/")
    if any(one.failures for one in ladder.standings):
        sys.exit(1)


class _TrainingOptions(NamedTuple):
    """The options for training recipes."""

    budget: Budget
    seeds: str | None
    seeds_for: list[str]
    corpus: Mapping[str, Any] | None
    """In place of the recipes'."""
    settings: list[str]

    def any_given(self) -> bool:
        return self.budget != Budget() or any(self[1:])


def _plan(
    systems: Sequence[str],
    training_options: _TrainingOptions,
    folder: ComparisonFolder,
    *,
    beam: int | None,
    tokenize: TokenizerChoice,
) -> ComparisonPlan:
    """The plan of the options; without systems, the one in `folder`."""
    if not systems:
        if training_options.any_given() or beam is not None or tokenize != "auto":
            raise SettingsError("name the recipes or runs too: options alone say too little")
        return folder.load_plan()
    seeds = _Seeds(training_options.seeds, training_options.seeds_for)
    entries = [entry for system in systems for entry in _entries(system, training_options, seeds)]
    _check_used(entries, seeds, training_options)
    command = ["regard", *sys.argv[1:]]
    return make_plan(
        entries, training_options.budget, beam or DEFAULT_BEAM, command, tokenize=tokenize
    )


class _Seeds:
    """The seeds of each system."""

    def __init__(self, seeds: str | None, seeds_for: Sequence[str]) -> None:
        self.common = _parse_seeds(seeds, "--seeds") if seeds is not None else []
        self.own: dict[str, list[int]] = {}
        for one in seeds_for:
            label, equals, numbers = one.rpartition("=")
            if not equals or not label:
                raise SettingsError(f"--seeds-for {one}: expected NAME=N,N, such as travel=1,2,3")
            if label in self.own:
                raise SettingsError(f"--seeds-for {label}: given twice; give all of its seeds once")
            self.own[label] = _parse_seeds(numbers, f"--seeds-for {label}")

    def of(self, label: str) -> list[int]:
        """Empty: the recipe's own."""
        return self.own.get(label, self.common)


def _parse_seeds(text: str, option: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    in_range = [number for number in numbers if 0 <= number <= MAX_SEED]
    if not numbers or len(set(in_range)) < len(numbers):
        raise SettingsError(
            f"{option} {text}: expected unlike numbers from 0 to {MAX_SEED}, such as 1,2,3"
        )
    return numbers


def _budget(given: Mapping[str, float | None]) -> Budget:
    chosen = {name: amount for name, amount in given.items() if amount is not None}
    if len(chosen) > 1:
        raise SettingsError(f"{' and '.join(f'--{name}' for name in chosen)}: one budget is enough")
    return Budget.model_validate(chosen)


def _entries(system: str, training_options: _TrainingOptions, seeds: _Seeds) -> list[PlanEntry]:
    """The rows of an argument `[NAME=]RECIPE|RUN`."""
    label, equals, name = system.partition("=")
    if not equals or Path(system).exists():  # a path may hold = too
        label, equals, name = "", "", system
    path = Path(name)
    if ComparisonFolder(path).plan.is_file():
        if equals:
            raise SettingsError(f"{system}: the rows of a comparison have names: drop {label}=")
        return ComparisonFolder(path).finished_entries()
    if path.is_file() and path.suffix not in (".yaml", ".yml"):
        raise SettingsError(f"{name}: a recipe is a .yaml file, and a run is a folder")
    if RunFolder(path).recipe.is_file() or (path.is_dir() and name not in shelf_recipes()):
        return [entry_of_run(path, label or None)]
    recipe = corpus_options.recipe_with_corpus(
        name, training_options.corpus, training_options.settings
    )
    label = label if equals else recipe.name
    return entries_of(recipe, label, seeds.of(label), training_options.budget)


def _check_used(
    entries: Sequence[PlanEntry], seeds: _Seeds, training_options: _TrainingOptions
) -> None:
    """Raise an error if an option has no effect."""
    trained = {entry.label for entry in entries if entry.run is None}
    if not trained and training_options.any_given():
        raise SettingsError(
            "all that is compared are finished runs, which are taken as they are: drop the options "
            "that say how to train"
        )
    if seeds.common and trained <= set(seeds.own):
        raise SettingsError(
            "--seeds: every recipe has seeds of its own by --seeds-for; drop one of the two"
        )
    for label in seeds.own:
        if label not in trained:
            raise SettingsError(
                f"--seeds-for {label}: no recipe of that name is compared; there are "
                f"{', '.join(sorted(trained))}"
            )


def _compare(
    new_plan: ComparisonPlan, folder: ComparisonFolder, *, device: str, jobs: int
) -> ComparisonResults:
    """Train and measure the unfinished rows, and write the report."""
    folder.check_no_run()
    _resumed_plan(new_plan, folder)  # raises an error before the folder is made
    with RunFolder(folder.path).locked():
        plan = _resumed_plan(new_plan, folder)
        try:
            data = prepare_shared_corpus(plan, folder, note)
        except RegardError:
            folder.remove_if_empty()
            raise
        plan = _with_tokenizer(plan.with_data(data.digest, folder.path), data)
        at_once = max(plan.at_once, min(jobs, len(untrained_entries(plan, folder))))
        plan = plan.model_copy(update={"at_once": at_once})
        folder.save_plan(plan)
        with StopRequests() as stop:
            with ComparisonProgress(folder) as watcher:
                run_rows(
                    plan,
                    folder,
                    jobs=jobs,
                    start=start_process(folder, device, jobs),
                    watcher=watcher,
                    stop_requested=stop,
                )
            if stop.received is not None:
                note(f"stopped; all is saved. Go on with: regard compare --out {folder.path}")
                sys.exit(128 + stop.received)
        return _write_report(plan, folder, data)


def _with_tokenizer(plan: ComparisonPlan, data: PreparedData) -> ComparisonPlan:
    """The plan with the tokenizer that all its rows are scored with."""
    references = [pair.target for pair in data.read(data.held_out())]
    name = score_options.resolve_tokenizer(plan.tokenize, data.languages[1], references)
    return plan.model_copy(update={"tokenize": name})


def _resumed_plan(new_plan: ComparisonPlan, folder: ComparisonFolder) -> ComparisonPlan:
    """The plan in the folder, or else the new one; an error if they differ."""
    if not folder.plan.exists():
        return new_plan
    plan = folder.load_plan()
    check_same_plan(plan, new_plan, folder.path)
    return plan


def _write_report(
    plan: ComparisonPlan, folder: ComparisonFolder, data: PreparedData
) -> ComparisonResults:
    """Write the tables and figures of the finished rows."""
    ladder = aggregate_results(plan, folder, data)
    write_atomic(folder.path / "ladder.json", ladder.model_dump_json(indent=1).encode())
    write_atomic(folder.path / "ladder.md", format_report(ladder, plan).encode())
    if ladder.rows:
        with missing_fonts_noted():
            figures = {
                "by-length": plot_by_length(ladder),
                "quality-cost": plot_quality_cost(ladder),
            }
        for name, figure in figures.items():
            for ending in ("png", "svg"):
                save_figure(figure, folder.path / f"{name}.{ending}")
    return ladder


def _run_row(folder: ComparisonFolder, name: str, goal: Goal, device: str) -> None:
    """Train or measure one row, in a process that `_compare` started."""
    plan = folder.load_plan()
    entry, torch_device = plan.entry(name), pick_device(device)
    reporter = TerminalReporter(entry.recipe.training.steps)
    if goal == "time":
        apply_budget(entry, plan.budget, folder, device=torch_device, reporter=reporter)
        return
    with StopRequests() as stop:
        train_row(entry, plan, folder, device=torch_device, reporter=reporter, stop_requested=stop)
    if stop.received is not None:
        sys.exit(128 + stop.received)
    if goal == "train":
        measure_untimed(entry, folder, device=torch_device, reporter=reporter)
    else:
        measure_row(entry, plan, folder, device=torch_device, reporter=reporter)
