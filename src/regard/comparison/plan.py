"""The plan of a comparison: systems, seeds and budget; and the folder that holds it."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
)

from regard.atomic_io import write_atomic
from regard.errors import RunError, SettingsError
from regard.evaluation.bleu_tokenizer import TokenizerChoice
from regard.json_files import load_json
from regard.manifest import MANIFEST, list_files
from regard.nested_values import UNSET
from regard.recipes.recipe_files import rename_old_settings
from regard.recipes.run_folder import COMPARISON_PLAN_FILE, RunFolder
from regard.settings import quoted
from regard.tasks.contracts import TaskRecipe
from regard.tasks.registry import DEFAULT_TASK, TASKS, find_task
from regard.training.checkpoints import last_progress

LoadRecipe = Callable[[str], TaskRecipe]

LABEL_PATTERN = re.compile(r"[\w+.,() -]+")  # names of systems, which are also parts of file names


def _read_recipe(given: Any) -> Any:
    """Parse a recipe from plain values in a saved plan, with the class of its task."""
    if not isinstance(given, dict):
        return given
    try:
        kind = find_task(given.get("task", DEFAULT_TASK), "plan").recipe()
    except SettingsError as error:
        raise ValueError(str(error)) from None
    return kind.model_validate(rename_old_settings(given))


class SavedRecord(BaseModel):
    """The plain JSON form of a value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def save(self, path: Path) -> None:
        write_atomic(path, self.model_dump_json(indent=1).encode())


class Budget(SavedRecord):
    """How long each row is trained; without any value, for as long as its recipe says."""

    steps: PositiveInt | None = None
    tokens: PositiveInt | None = None  # target tokens, counted in every epoch
    minutes: PositiveFloat | None = None  # of training steps, without validations and checkpoints

    def describe(self, rows: str) -> str:
        """The budget in words."""
        given = (f"{amount:,} {unit} of training" for unit, amount in self if amount is not None)
        return f"{next(given, 'as long as its recipe says')} for {rows}"


class PlanEntry(SavedRecord):
    """A row of a comparison: one system with one seed."""

    label: str  # the name of the system, the same for all seeds
    recipe: Annotated[SerializeAsAny[TaskRecipe], BeforeValidator(_read_recipe)]
    run: Path | None = None  # a finished run, which is not trained
    start_name: str | None = None
    """The name by which recipes that start from its run refer to it; None: it is a row."""

    @property
    def is_start(self) -> bool:
        """Whether it is not a row, but a run that rows start from."""
        return self.start_name is not None

    @property
    def rows(self) -> Any:
        """How rows of its task are trained, measured and shown (`comparison.rows`)."""
        rows = TASKS[self.recipe.task].rows
        assert rows is not None  # `check_comparable` was asked
        return rows()()

    @property
    def start(self) -> str | None:
        """The name of the recipe whose run, trained by the comparison, it starts from, if any."""
        start = self.recipe.start
        return start.recipe if start is not None and start.run is None else None

    @property
    def is_imported(self) -> bool:
        """Whether it is a model of another toolkit, which is not trained here and has no data."""
        return self.run is not None and self.recipe.is_imported

    @property
    def seed(self) -> int:
        return self.recipe.training.seed

    @property
    def name(self) -> str:
        """The unique name of the row or of the starting run."""
        return f"start-{self.label}" if self.is_start else f"{self.label}-seed{self.seed}"


class ComparisonPlan(SavedRecord):
    """What is compared, and how."""

    entries: tuple[PlanEntry, ...]
    budget: Budget
    beam: PositiveInt  # beam size of all rows; the other decoding settings are those of the recipes
    tokenize: TokenizerChoice = "13a"  # the tokenizer of BLEU; plans saved without it used `13a`
    command: tuple[str, ...] = ()
    data: str = ""  # SHA-256 of the cleaned texts of all rows, once they have been read
    at_once: PositiveInt = 1  # the most rows that were trained at a time
    starts: tuple[PlanEntry, ...] = ()
    """Runs that rows, or other runs in this list, start from, in the order in which they depend on
    each other."""
    against: tuple[str, ...] = ()  # systems that others are tested against; empty: the best ones

    @property
    def rows(self) -> Any:
        """How its rows are trained, measured and shown (`comparison.rows`)."""
        return self.entries[0].rows

    @property
    def budget_text(self) -> str:
        given = sum(entry.run is not None for entry in self.entries)
        if given == len(self.entries):
            return "finished runs as they were"
        if given:
            return f"{self.budget.describe('each row trained here')}; finished runs as they were"
        return self.budget.describe("each row")

    def entry(self, name: str) -> PlanEntry:
        return next(entry for entry in (*self.entries, *self.starts) if entry.name == name)

    def start_of(self, entry: PlanEntry) -> PlanEntry | None:
        """The run that a row starts from, if the comparison trains it."""
        wanted = entry.start
        return next((one for one in self.starts if wanted and one.start_name == wanted), None)

    def begun_recipe(self, entry: PlanEntry) -> TaskRecipe:
        """The recipe of a row, completed with what it takes from the run that it starts from, if
        any.
        """
        start = self.start_of(entry)
        return entry.recipe if start is None else entry.recipe.begun_with(self.begun_recipe(start))

    def with_data(self, digest: str, folder: Path) -> "ComparisonPlan":
        """The plan for texts with this digest. Raises an error if it was begun on other texts."""
        if self.data and self.data != digest:
            raise SettingsError(
                f"{folder}: its corpus has changed since the comparison was begun: SHA-256 "
                f"{self.data[:12]}… before, {digest[:12]}… now; compare in another folder"
            )
        return self.model_copy(update={"data": digest})


def entries_of(
    recipe: TaskRecipe, label: str, seeds: Sequence[int], budget: Budget
) -> list[PlanEntry]:
    """An entry for each seed; without seeds, one with the recipe's seed."""
    steps = {} if budget.steps is None else {"training.steps": budget.steps}
    return [
        PlanEntry(label=label, recipe=recipe.with_values({"training.seed": seed, **steps}))
        for seed in seeds or (recipe.training.seed,)
    ]


def check_finished(run: RunFolder) -> None:
    """Raise an error unless a run is finished and has a checkpoint."""
    if run.in_use():
        problem = "a process is training there; wait for it, or stop it"
    elif not run.finished():
        again = f"regard train --resume --out {quoted(run.path)}"
        problem = f"its training has not reached its end; continue with: {again}"
    elif last_progress(run.path) is None and not run.load_recipe().is_imported:
        gone = "its checkpoints, which say how long it was trained, are gone"
        problem = f"{gone}; compare a run that has one"
    else:
        return
    raise SettingsError(f"{run.path}: {problem}")


def entry_of_run(path: Path, label: str | None) -> PlanEntry:
    """The entry of a finished run."""
    folder = RunFolder(path)
    recipe = check_comparable(folder.load_recipe(), str(path))
    label = label or _label_in_comparison(path, recipe) or recipe.name
    entry = PlanEntry(label=label, recipe=recipe, run=path.resolve())
    if recipe.is_imported and not entry.rows.takes_imported:
        raise SettingsError(
            f"{path}: was imported, and has no data to be compared on. Use `regard evaluate "
            f"{quoted(path)} --data FILE --against RUN`"
        )
    check_finished(folder)
    return entry


def check_comparable(recipe: TaskRecipe, where: str) -> TaskRecipe:
    """The recipe, if runs of its task can be compared."""
    if TASKS[recipe.task].rows is None:
        raise SettingsError(f"{where}: its task is {recipe.task}, whose runs cannot be compared")
    return recipe


def start_entries(entries: Iterable[PlanEntry], load: LoadRecipe) -> list[PlanEntry]:
    """The runs that rows start from, according to their recipes, and the runs that those start from
    in turn, in the order in which they depend on each other.
    """
    found: dict[str, PlanEntry] = {}

    def add(name: str, waiting: tuple[str, ...]) -> None:
        if name in waiting:
            raise SettingsError(f"start.recipe: {' starts from '.join((*waiting, name))}")
        if name in found:
            return
        recipe = load(name)
        entry = PlanEntry(label=recipe.name, recipe=recipe, start_name=name)
        if entry.start is not None:
            add(entry.start, (*waiting, name))
        if entry.label in {one.label for one in found.values()}:
            raise SettingsError(f"start.recipe: two recipes are called {entry.label}: rename one")
        found[name] = entry

    for entry in entries:
        if entry.start is not None and entry.run is None:
            add(entry.start, ())
    return list(found.values())


def _label_in_comparison(path: Path, recipe: TaskRecipe) -> str | None:
    """The name of a run's system in the comparison that trained it, if there is one."""
    run = path.resolve()
    label, _, seed = run.name.rpartition("-seed")
    made = run.parent.name == "runs" and (run.parents[1] / COMPARISON_PLAN_FILE).is_file()
    return label if made and label and seed == str(recipe.training.seed) else None


def name_runs_apart(entries: Sequence[PlanEntry]) -> list[PlanEntry]:
    """The entries, in which finished runs with the same recipe name that are not seeds of one
    system are named after their folders.
    """
    by_label: dict[str, list[PlanEntry]] = {}
    for entry in entries:
        by_label.setdefault(entry.label, []).append(entry)
    clashing = {label for label, some in by_label.items() if not _are_one_system(some)}
    return [
        entry.model_copy(update={"label": entry.run.name})
        if entry.run is not None and entry.label in clashing and entry.label == entry.recipe.name
        else entry
        for entry in entries
    ]


def _are_one_system(entries: Sequence[PlanEntry]) -> bool:
    """Whether entries differ only in their seeds."""
    different_seeds = len({entry.seed for entry in entries}) == len(entries)
    first, *others = map(_without_seed, entries)
    return different_seeds and not any(differences(first, other) for other in others)


def make_plan(
    entries: Sequence[PlanEntry],
    budget: Budget,
    beam: int,
    command: Sequence[str] = (),
    *,
    tokenize: TokenizerChoice = "auto",
    against: Sequence[str] = (),
    starts: Sequence[PlanEntry] = (),
) -> ComparisonPlan:
    """The plan of these entries, whose names must be unique."""
    tasks = list(dict.fromkeys(entry.recipe.task for entry in entries))
    if len(tasks) > 1:
        raise SettingsError(
            f"runs of {' and '.join(tasks)} cannot be compared; give runs of one task"
        )
    _check_labels((*entries, *starts))
    if unknown := [one for one in against if one not in {entry.label for entry in entries}]:
        raise SettingsError(f"--against {unknown[0]}: no system of that name is compared")
    first: dict[str, PlanEntry] = {}  # of each system
    names: set[str] = set()
    rename = "give one of them another name"
    for entry in entries:
        sibling = first.setdefault(entry.label, entry)
        found = differences(_without_seed(sibling), _without_seed(entry))
        if entry.name in names:
            problem = f"two rows are called {entry.label} with seed {entry.seed}: {rename}"
        elif found:
            both = f"{sibling.name} and {entry.name}"
            problem = f"{both} differ in more than their seed: {found[0]}; {rename}"
        else:
            names.add(entry.name)
            continue
        raise SettingsError(f"{problem} by NAME=RECIPE")
    return ComparisonPlan(
        entries=tuple(entries),
        budget=budget,
        beam=beam,
        tokenize=tokenize,
        command=tuple(command),
        starts=tuple(starts),
        against=tuple(against),
    )


def _without_seed(entry: PlanEntry) -> dict[str, Any]:
    return entry.recipe.model_dump(mode="json", exclude={"training": {"seed"}})


def check_same_plan(saved: ComparisonPlan, wanted: ComparisonPlan, folder: Path) -> None:
    """Raise an error that names a difference between two plans, if any; `auto` equals any
    tokenizer.
    """
    if wanted.tokenize == "auto":
        wanted = wanted.model_copy(update={"tokenize": saved.tokenize})
    before, now = _comparable(saved), _comparable(wanted)
    found = differences(before, now)
    if list(before["entries"]) != list(now["entries"]) and not found:
        found = ["its rows were in another order"]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise SettingsError(
            f"{folder}: holds a comparison that was begun with other arguments: {found[0]}{more}; "
            f"continue it with `regard compare --out {quoted(folder)}`, or compare in another "
            "folder"
        )


def _comparable(plan: ComparisonPlan) -> dict[str, Any]:
    """The parts of a plan that affect its results, with entries by name."""
    plain = plan.model_dump(mode="json", exclude={"command", "data", "at_once"})
    return plain | {
        kind: {entry.name: one for entry, one in zip(getattr(plan, kind), plain[kind], strict=True)}
        for kind in ("entries", "starts")
    }


def differences(before: Any, now: Any, name: str = "") -> list[str]:
    """One sentence for each difference between two JSON values."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            difference
            for key in {**before, **now}
            for difference in differences(
                before.get(key, UNSET), now.get(key, UNSET), f"{name}.{key}" if name else key
            )
        ]
    if now is UNSET:
        return [f"{name} is no longer there"]
    if before is UNSET:
        return [f"{name} is new"]
    if before == now:
        return []
    return [f"{name} was {_abbreviated(before)} and is now {_abbreviated(now)}"]


def _abbreviated(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _check_labels(entries: Iterable[PlanEntry]) -> None:
    """Raise an error unless files can be named after all entries."""
    for entry in entries:
        if not LABEL_PATTERN.fullmatch(entry.label) or entry.label.startswith("."):
            raise SettingsError(
                f"{entry.label!r} cannot be the name of a row: give it another one by NAME=RECIPE"
            )


class ComparisonFolder:
    """Paths of the parts of a comparison."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan = path / COMPARISON_PLAN_FILE
        self.starts = path / "starts"
        """The folder of the runs that rows start from."""
        self.corpora = path / "corpus"
        """The folder of the cleaned corpora, one for each of the recipes' corpus settings."""

    def run(self, entry: PlanEntry) -> RunFolder:
        made = self.starts / entry.label if entry.is_start else self.path / "runs" / entry.name
        return RunFolder(entry.run or made)

    def row(self, entry: PlanEntry) -> Path:
        """The file of a row's measurements, or of its failure."""
        return self.path / "rows" / f"{entry.name}.json"

    def findings(self, entry: PlanEntry) -> Path:
        """The file of a row's measurements other than speeds."""
        return self.path / "found" / f"{entry.name}.json"

    def translations(self, entry: PlanEntry) -> Path:
        """The file of a row's translations of the test set."""
        return self.path / "rows" / f"{entry.name}.txt"

    def log(self, entry: PlanEntry) -> Path:
        """The log file of a row's process."""
        return self.path / "logs" / f"{entry.name}.log"

    def steps(self, entry: PlanEntry) -> Path:
        """The file with the number of steps that a budget in minutes allows a system."""
        return self.path / "steps" / f"{entry.label}.json"

    def finished_entries(self) -> list[PlanEntry]:
        """The finished runs as rows of another comparison, in the order of this plan."""
        entries = [
            entry_of_run(self.run(entry).path, entry.label)
            for entry in self.load_plan().entries
            if self.run(entry).finished()
        ]
        if not entries:
            raise RunError(f"{self.path}: none of its rows is finished; continue it first")
        return entries

    def check_no_run(self) -> None:
        """Raise an error if the folder holds a run."""
        if RunFolder(self.path).recipe.exists():
            raise RunError(f"{self.path}: holds a run; compare in another folder with --out")

    def remove_if_empty(self) -> None:
        """Remove the folder and its lock, if it holds nothing else."""
        if not self.plan.exists():
            RunFolder(self.path).lock.unlink(missing_ok=True)
            if not any(True for _ in list_files(self.path)):
                (self.path / MANIFEST).unlink(missing_ok=True)
            with suppress(OSError):  # not empty
                self.path.rmdir()

    def load_plan(self) -> ComparisonPlan:
        if not self.plan.is_file():
            raise RunError(f"{self.path}: holds no comparison yet: name recipes or runs to compare")
        plan = load_json(self.plan, ComparisonPlan, advice="compare in another folder")
        _check_labels((*plan.entries, *plan.starts))
        return plan
