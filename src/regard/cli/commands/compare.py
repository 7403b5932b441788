"""`regard compare`: several systems trained in the same way, scored and timed in one table."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from typer import Argument, Context

from regard.atomic_io import write_atomic
from regard.cli.display.compare_view import ComparisonProgress, print_results
from regard.cli.display.console import note, print_json
from regard.cli.display.figures import missing_fonts_noted
from regard.cli.display.training_progress import TerminalReporter
from regard.cli.options import corpus_options, shared_options
from regard.cli.options.shared_options import option, refuse_options
from regard.comparison import row_processes
from regard.comparison.plan import (
    Budget,
    ComparisonFolder,
    ComparisonPlan,
    PlanEntry,
    check_comparable,
    check_same_plan,
    entries_of,
    entry_of_run,
    make_plan,
    name_runs_apart,
    start_entries,
)
from regard.comparison.results import Results
from regard.comparison.rows import ResultFigure, RowContext
from regard.decoding.settings import MAX_BEAM
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice
from regard.inspection.plots.figure import save_figure
from regard.recipes.recipe_files import load_recipe, shelf_recipes
from regard.recipes.run_folder import RunFolder, pick_device
from regard.recipes.transfer.start_run import check_overrides
from regard.settings import quoted
from regard.training.signals import StopRequests

DEFAULT_BEAM = 5  # default beam of every row's search
MAX_MINUTES = 1e6  # upper limit; rejects infinity
MAX_SEED = 2**63 - 1  # the largest seed of torch


def command(
    context: Context,
    systems: list[str] | None = Argument(
        None,
        metavar="[NAME=]RECIPE|RUN...",
        help="Recipes (built-in, or YAML files), which are trained, and folders of finished runs, "
        "which are not trained further; a comparison's folder stands for all of its runs. NAME is "
        "the name in the table; by default the recipe's name, or the folder's for runs of one "
        "recipe that differ in more than their seeds.",
    ),
    out_folder: Path = option(
        "The folder of the comparison.", "--out", "-o", default=Path("ladder"), metavar="DIR"
    ),
    steps: int | None = option("Train each for this many steps.", min=1),
    tokens: int | None = option("Train each on this many target tokens.", min=1),
    minutes: float | None = option(
        "Train each for about this many minutes.", min=0.001, max=MAX_MINUTES
    ),
    seeds: str | None = option("Train each recipe with these seeds.", metavar="N,N,..."),
    seeds_for: list[str] | None = option(
        "Different seeds for one recipe; may be repeated.", metavar="NAME=N,N,..."
    ),
    corpus: str | None = option(
        "A corpus (`regard corpora`) to use instead of the recipes'.", metavar="NAME"
    ),
    data: corpus_options.Data = None,
    source: corpus_options.Source = None,
    target: corpus_options.Target = None,
    valid: corpus_options.Valid = None,
    test: corpus_options.Test = None,
    languages: corpus_options.Languages = None,
    skip_bad: corpus_options.SkipBad = False,
    settings: shared_options.Settings = None,
    beam: int | None = option(
        f"Hypotheses kept at each step of every search; {DEFAULT_BEAM} if not given.",
        min=1,
        max=MAX_BEAM,
    ),
    against: list[str] | None = option(
        "Test the other systems against this one instead of the best; for tasks other than "
        "translation. May be repeated, once for each corpus.",
        metavar="NAME",
    ),
    tokenize: TokenizerChoice = option(
        "BLEU's tokenizer, by sacreBLEU's names; none splits at spaces; auto goes by the "
        "target language.",
        default="auto",
    ),
    jobs: int = option(
        "Number of systems to train at the same time; they are timed one after the other.",
        default=1,
        min=1,
    ),
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
    row: str | None = option("", hidden=True),
    goal: row_processes.Goal = option("", default="measure", hidden=True),
    parent: int | None = option("", hidden=True),
) -> None:
    """All systems are trained on one corpus with one budget (or as long as their recipes say), with
    each of the seeds. DIR then has the table (ladder.md, ladder.json), its figures, and every run.
    After a stop or a crash, the same command continues; so does `regard compare --out DIR`, which
    also draws a finished comparison again.

    Recipes of tasks other than translation may have different corpora, each with its own table. The
    run that a recipe starts from (start.recipe) is trained first, once for all seeds.

    Examples:

        regard compare travel-rnn travel-rnnsearch travel --steps 1000 --out ladders/travel
        regard compare multi30k big.yaml runs/older --seeds 1,2,3 --jobs 4 --out ladders/mine
        regard compare trec6 trec6-gpt trec6-bert --seeds 1,2,3 --against trec6 --out ladders/trec6
        regard compare --out ladders/mine
    """
    folder = ComparisonFolder(out_folder)
    if row is not None:
        if parent is not None:
            row_processes.die_with_parent(parent)
        _run_row(folder, row, goal, device)
        return
    files = corpus_options.corpus_from_options(
        data, source, target, valid, test, languages, skip_bad
    )
    if corpus is not None and files is not None:
        raise SettingsError("--corpus and files of your own exclude each other: drop one of them")
    options = _TrainingOptions(
        budget=_budget({"steps": steps, "tokens": tokens, "minutes": minutes}),
        seeds=_parse_seeds(seeds, "--seeds") if seeds is not None else [],
        seeds_for=_parse_seeds_for(seeds_for or []),
        corpus={"name": corpus} if corpus is not None else files,
        settings=settings or [],
    )
    if systems:
        plan = _plan(systems, options, beam, tokenize, against or [])
        task = plan.entries[0].recipe.task
        refuse_options(context, plan.rows.without_effect, f"runs of {task}")
    elif options.any_given() or beam is not None or tokenize != "auto" or against:
        raise SettingsError("name the recipes or runs to compare: options alone are not enough")
    else:
        plan = folder.load_plan()
    pick_device(device)  # raises an error early
    results, figures = _compare(plan, folder, device=device, jobs=jobs)
    if json:
        print_json(results.model_dump(mode="json"))
    else:
        print_results(results)
        drawn = ", ".join(f"{name}.png" for name in figures)
        written = f"{drawn} (and .svg), " if drawn else ""
        note(f"the results are in {folder.path}: ladder.md, ladder.json, {written}logs/, runs/")
    if results.failed:
        sys.exit(1)


class _TrainingOptions(NamedTuple):
    budget: Budget
    seeds: list[int]  # empty: the recipe's own
    seeds_for: dict[str, list[int]]
    corpus: Mapping[str, Any] | None  # instead of the recipes'
    settings: list[str]

    def any_given(self) -> bool:
        return self.budget != Budget() or any(self[1:])


def _plan(
    systems: Sequence[str],
    options: _TrainingOptions,
    beam: int | None,
    tokenize: TokenizerChoice,
    against: Sequence[str],
) -> ComparisonPlan:
    """The plan from the options; an error if one of them has no effect."""
    entries = name_runs_apart([one for system in systems for one in _entries(system, options)])
    trained = {entry.label for entry in entries if entry.run is None}
    if not trained and options.any_given():
        raise SettingsError(
            "only finished runs are compared, and nothing is trained: drop the options about "
            "training"
        )
    for label in options.seeds_for:
        if label not in trained:
            raise SettingsError(
                f"--seeds-for {label}: no compared recipe has this name; there are "
                f"{', '.join(sorted(trained))}"
            )
    plan = make_plan(
        entries,
        options.budget,
        beam or DEFAULT_BEAM,
        ["regard", *sys.argv[1:]],
        tokenize=tokenize,
        against=against,
        starts=start_entries(entries, load_recipe),
    )
    for entry in plan.entries:
        if (start := plan.start_of(entry)) is not None:
            run = f"a run of {start.label}"
            check_overrides(options.settings, entry.recipe, plan.begun_recipe(entry), run)
    return plan


def _parse_seeds_for(given: Sequence[str]) -> dict[str, list[int]]:
    """The seeds of each NAME=N,N."""
    seeds: dict[str, list[int]] = {}
    for one in given:
        label, _, numbers = one.rpartition("=")
        if not label:
            raise SettingsError(f"--seeds-for {one}: expected NAME=N,N, such as travel=1,2,3")
        if label in seeds:
            raise SettingsError(f"--seeds-for {label}: given twice; give all of its seeds once")
        seeds[label] = _parse_seeds(numbers, f"--seeds-for {label}")
    return seeds


def _parse_seeds(text: str, option: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = [-1]
    if len({number for number in numbers if 0 <= number <= MAX_SEED}) < len(numbers):
        raise SettingsError(
            f"{option} {text}: expected different numbers from 0 to {MAX_SEED}, such as 1,2,3"
        )
    return numbers


def _budget(given: Mapping[str, float | None]) -> Budget:
    chosen = {name: amount for name, amount in given.items() if amount is not None}
    if len(chosen) > 1:
        raise SettingsError(f"{' and '.join(f'--{name}' for name in chosen)}: give only one budget")
    return Budget.model_validate(chosen)


def _entries(system: str, options: _TrainingOptions) -> list[PlanEntry]:
    """The rows of an argument `[NAME=]RECIPE|RUN`."""
    label, equals, name = system.partition("=")
    if not equals or Path(system).exists():  # a path may contain = too
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
    given = corpus_options.recipe_with_corpus(name, options.corpus, options.settings)
    recipe = check_comparable(given, name)
    label = label if equals else recipe.name
    return entries_of(recipe, label, options.seeds_for.get(label, options.seeds), options.budget)


def _compare(
    new_plan: ComparisonPlan, folder: ComparisonFolder, *, device: str, jobs: int
) -> tuple[Results, list[str]]:
    """Train and measure the unfinished rows, and write the report; returns the results, and the
    names of the figures.
    """
    folder.check_no_run()
    _resumed_plan(new_plan, folder)  # raises an error before the folder is made
    with RunFolder(folder.path).locked():
        plan = _resumed_plan(new_plan, folder)
        plan = plan.rows.prepare(plan, folder, note)
        at_once = max(plan.at_once, min(jobs, len(row_processes.untrained_entries(plan, folder))))
        plan = plan.model_copy(update={"at_once": at_once})
        plan.save(folder.plan)
        with StopRequests() as stop:
            with ComparisonProgress(folder) as observer:
                start = row_processes.start_process(folder, device, jobs)
                row_processes.RowProcesses(folder, start, observer, stop).run_plan(plan, jobs)
            if stop.received is not None:
                again = f"regard compare --out {quoted(folder.path)}"
                note(f"stopped; all is saved. Continue with: {again}")
                sys.exit(128 + stop.received)
        return _write_report(plan, folder)


def _resumed_plan(new_plan: ComparisonPlan, folder: ComparisonFolder) -> ComparisonPlan:
    """The plan in the folder, or else the new one; an error if they differ."""
    if not folder.plan.exists():
        return new_plan
    plan = folder.load_plan()
    check_same_plan(plan, new_plan, folder.path)
    return plan


def _write_report(plan: ComparisonPlan, folder: ComparisonFolder) -> tuple[Results, list[str]]:
    """Write the tables and figures of the finished rows."""
    results: Results = plan.rows.results(plan, folder)
    figures: Mapping[str, ResultFigure] = plan.rows.figures if results.rows else {}
    results.save(folder.path / "ladder.json")
    report = results.report(plan, {name: figure.about for name, figure in figures.items()})
    write_atomic(folder.path / "ladder.md", report.encode())
    for name, figure in figures.items():
        with missing_fonts_noted():
            drawn = figure.draw(results)
        for ending in ("png", "svg"):
            save_figure(drawn, folder.path / f"{name}.{ending}")
    return results, list(figures)


def _run_row(folder: ComparisonFolder, name: str, goal: row_processes.Goal, device: str) -> None:
    """Train or measure one row, in a process that `_compare` started."""
    plan = folder.load_plan()
    entry = plan.entry(name)
    reporter = TerminalReporter(entry.recipe.training.steps)
    row, rows = RowContext(entry, plan, folder, pick_device(device), reporter), plan.rows
    if goal == "time":
        rows.time(row)
        return
    with StopRequests() as stop:
        rows.train(row, stop)
    if stop.received is not None:
        sys.exit(128 + stop.received)
    rows.measure(row, alone=goal == "measure")
