"""`regard compare`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from regard.cli import options, own_files
from regard.cli.console import note, print_json
from regard.cli.ladder import LadderWatcher, print_ladder
from regard.cli.pictures import fonts_noted
from regard.cli.progress import TerminalReporter
from regard.comparison.budget import recipe_within
from regard.comparison.corpus import share_corpus
from regard.comparison.figures import plot_by_length, plot_quality_cost
from regard.comparison.folder import ComparisonFolder
from regard.comparison.jobs import Goal, carry_out, die_with_parent, start_process, to_train
from regard.comparison.ladder import Ladder, build_ladder
from regard.comparison.measuring import examine_row, measure_row
from regard.comparison.page import write_page
from regard.comparison.plan import (
    Budget,
    Entry,
    Plan,
    check_same,
    entries_of,
    entry_of_run,
    make_plan,
)
from regard.comparison.running import train_row
from regard.errors import RegardError, SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice, choose_tokenizer
from regard.evaluation.metrics import check_available
from regard.files import write_whole
from regard.inspection.plot import save_figure
from regard.recipes.load import shelf_recipes
from regard.recipes.prepare import Data
from regard.recipes.run_folder import RunFolder, pick_device
from regard.training.interrupts import StopRequests

app = typer.Typer()

BEAM = 5
"""Hypotheses kept at each step of every row's search, unless told otherwise."""
MINUTES = 1e6
"""More than anybody will wait: it is infinity that is meant to be refused."""
LARGEST_SEED = 2**63 - 1
"""That torch takes."""


@app.command()
def command(
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME=]RECIPE|RUN...",
            help="Recipes of the shelf or YAML files, which are trained, and folders of finished "
            "runs, which are taken as they are; a comparison's folder stands for all of its. NAME "
            "is what the table calls it.",
        ),
    ] = None,
    out_folder: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the comparison goes.")
    ] = Path("ladder"),
    steps: Annotated[int | None, typer.Option(min=1, help="Train each for so many steps.")] = None,
    tokens: Annotated[
        int | None, typer.Option(min=1, help="Train each on so many target tokens.")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            max=MINUTES,
            help="Train each for so many minutes, by timing some steps first.",
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N,N,...", help="Train each recipe with these seeds.")
    ] = None,
    seeds_for: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=N,N,...", help="Other seeds for one of them; may be repeated."),
    ] = None,
    corpus: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A corpus (`regard corpora`) in place of the recipes'."),
    ] = None,
    data: own_files.Data = None,
    source: own_files.Source = None,
    target: own_files.Target = None,
    valid: own_files.Valid = None,
    test: own_files.Test = None,
    languages: own_files.Languages = None,
    skip_bad: own_files.SkipBad = False,
    settings: options.Settings = None,
    beam: Annotated[
        int | None,
        typer.Option(min=1, help=f"Hypotheses kept at each step of all searches, else {BEAM}."),
    ] = None,
    tokenize: Annotated[
        TokenizerChoice,
        typer.Option(
            help="How BLEU cuts lines into words, by sacreBLEU's names; none: at spaces; auto: by "
            "the target language."
        ),
    ] = "auto",
    jobs: Annotated[
        int, typer.Option(min=1, help="Rows trained at once; measured they are one by one.")
    ] = 1,
    device: options.Device = "auto",
    json: options.Json = False,
    row: Annotated[str | None, typer.Option(hidden=True)] = None,
    goal: Annotated[Goal, typer.Option(hidden=True)] = "measure",
    parent: Annotated[int | None, typer.Option(hidden=True)] = None,
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
    given = own_files.OwnFiles(data, source, target, skip_bad)
    files = own_files.own_corpus(given, valid, test, languages)
    if corpus is not None and files is not None:
        raise SettingsError("--corpus and files of your own exclude each other: drop one of them")
    asked = _Asked(
        _budget({"steps": steps, "tokens": tokens, "minutes": minutes}),
        seeds,
        seeds_for or [],
        {"name": corpus} if corpus is not None else files,
        settings or [],
    )
    wanted = _plan(systems or [], asked, folder, beam=beam, tokenize=tokenize)
    pick_device(device)  # before anything is made, if it cannot be used
    ladder = _compare(wanted, folder, device=device, jobs=jobs)
    if json:
        print_json(ladder.model_dump(mode="json"))
    else:
        print_ladder(ladder)
        figures = "by-length.png, quality-cost.png (and .svg), " if ladder.rows else ""
        note(f"all of it is in {folder.path}: ladder.md, ladder.json, {figures}logs/, runs/")
    if any(one.failures for one in ladder.standings):
        sys.exit(1)


class _Asked(NamedTuple):
    """What the options say of how recipes are trained."""

    budget: Budget
    seeds: str | None
    seeds_for: list[str]
    corpus: Mapping[str, Any] | None
    """In place of the recipes'."""
    settings: list[str]

    def anything(self) -> bool:
        return self.budget != Budget() or any(self[1:])


def _plan(
    systems: Sequence[str],
    asked: _Asked,
    folder: ComparisonFolder,
    *,
    beam: int | None,
    tokenize: TokenizerChoice,
) -> Plan:
    """What is to be compared; without systems, what was begun in `folder`."""
    if not systems:
        if asked.anything() or beam is not None or tokenize != "auto":
            raise SettingsError("name the recipes or runs too: options alone say too little")
        return folder.load_plan()
    seeds = _Seeds(asked.seeds, asked.seeds_for)
    entries = [entry for system in systems for entry in _entries(system, asked, seeds)]
    _check_used(entries, seeds, asked)
    command = ["regard", *sys.argv[1:]]
    return make_plan(entries, asked.budget, beam or BEAM, command, tokenize=tokenize)


class _Seeds:
    """Which seeds a system is trained with."""

    def __init__(self, seeds: str | None, seeds_for: Sequence[str]) -> None:
        self.common = _numbers(seeds, "--seeds") if seeds is not None else []
        self.own: dict[str, list[int]] = {}
        for one in seeds_for:
            label, equals, numbers = one.rpartition("=")
            if not equals or not label:
                raise SettingsError(f"--seeds-for {one}: expected NAME=N,N, such as travel=1,2,3")
            if label in self.own:
                raise SettingsError(f"--seeds-for {label}: given twice; give all of its seeds once")
            self.own[label] = _numbers(numbers, f"--seeds-for {label}")

    def of(self, label: str) -> list[int]:
        """Empty: the recipe's own."""
        return self.own.get(label, self.common)


def _numbers(text: str, option: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    fitting = [number for number in numbers if 0 <= number <= LARGEST_SEED]
    if not numbers or len(set(fitting)) < len(numbers):
        raise SettingsError(
            f"{option} {text}: expected unlike numbers from 0 to {LARGEST_SEED}, such as 1,2,3"
        )
    return numbers


def _budget(given: Mapping[str, float | None]) -> Budget:
    chosen = {name: amount for name, amount in given.items() if amount is not None}
    if len(chosen) > 1:
        raise SettingsError(f"{' and '.join(f'--{name}' for name in chosen)}: one budget is enough")
    return Budget.model_validate(chosen)


def _entries(system: str, asked: _Asked, seeds: _Seeds) -> list[Entry]:
    """The rows of what was given as `[NAME=]RECIPE|RUN`."""
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
    recipe = own_files.recipe_with(name, asked.corpus, asked.settings)
    label = label if equals else recipe.name
    return entries_of(recipe, label, seeds.of(label), asked.budget)


def _check_used(entries: Sequence[Entry], seeds: _Seeds, asked: _Asked) -> None:
    """An error if an option would do nothing."""
    trained = {entry.label for entry in entries if entry.run is None}
    if not trained and asked.anything():
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


def _compare(wanted: Plan, folder: ComparisonFolder, *, device: str, jobs: int) -> Ladder:
    """Do what is still to be done, and draw what there is."""
    folder.check_no_run()
    _begun(wanted, folder)  # what is refused leaves nothing behind
    with RunFolder(folder.path).locked():
        plan = _begun(wanted, folder)
        try:
            data = share_corpus(plan, folder, note)
        except RegardError:
            folder.leave_nothing()
            raise
        plan = _with_tokenizer(plan.on(data.digest, folder.path), data)
        plan = plan.beside(min(jobs, len(to_train(plan, folder))))
        folder.save_plan(plan)
        with StopRequests() as stop:
            with LadderWatcher(folder) as watcher:
                carry_out(
                    plan,
                    folder,
                    jobs=jobs,
                    start=start_process(folder, device, jobs),
                    watcher=watcher,
                    stop_asked=stop,
                )
            if stop.received is not None:
                note(f"stopped; all is saved. Go on with: regard compare --out {folder.path}")
                sys.exit(128 + stop.received)
        return _draw(plan, folder, data)


def _with_tokenizer(plan: Plan, data: Data) -> Plan:
    """The plan with the tokenizer that all its rows are scored with."""
    if plan.tokenize != "auto":
        check_available(plan.tokenize)  # before anything is trained
        return plan
    references = [pair.target for pair in data.read(data.held_out())]
    name, why = choose_tokenizer(data.languages[1], references)
    if why:
        note(f"BLEU is counted with tok:{name}, chosen by {why}")
    return plan.cut_by(name)


def _begun(wanted: Plan, folder: ComparisonFolder) -> Plan:
    """The plan that lies in the folder, or else the one wanted; an error if they differ."""
    if not folder.plan.exists():
        return wanted
    plan = folder.load_plan()
    check_same(plan, wanted, folder.path)
    return plan


def _draw(plan: Plan, folder: ComparisonFolder, data: Data) -> Ladder:
    """Write the tables and figures of what is finished."""
    ladder = build_ladder(plan, folder, data)
    write_whole(folder.path / "ladder.json", ladder.model_dump_json(indent=1).encode())
    write_whole(folder.path / "ladder.md", write_page(ladder, plan).encode())
    if ladder.rows:
        with fonts_noted():
            figures = {
                "by-length": plot_by_length(ladder),
                "quality-cost": plot_quality_cost(ladder),
            }
        for name, figure in figures.items():
            for ending in ("png", "svg"):
                save_figure(figure, folder.path / f"{name}.{ending}")
    return ladder


def _run_row(folder: ComparisonFolder, name: str, goal: Goal, device: str) -> None:
    """What a process that `_compare` started does: bring one row to its goal."""
    plan = folder.load_plan()
    entry, where = plan.entry(name), pick_device(device)
    reporter = TerminalReporter(entry.recipe.training.steps)
    if goal == "time":
        recipe_within(entry, plan.budget, folder, device=where, reporter=reporter)
        return
    with StopRequests() as stop:
        train_row(entry, plan, folder, device=where, reporter=reporter, stop_asked=stop)
    if stop.received is not None:
        sys.exit(128 + stop.received)
    if goal == "train":
        examine_row(entry, folder, device=where, reporter=reporter)
    else:
        measure_row(entry, plan, folder, device=where, reporter=reporter)
