"""What is compared: which systems, with which seeds, under which budget."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PositiveFloat, PositiveInt

from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import BleuTokenizer, TokenizerChoice
from regard.recipes.recipe import Recipe
from regard.recipes.recipe_files import rename_old_settings
from regard.recipes.run_folder import COMPARISON_PLAN_FILE, RunFolder
from regard.training.checkpoints import last_progress

LABEL_PATTERN = re.compile(r"[\w+.,() -]+")
"""What a row may be called: its name is that of files too."""


def _rename_settings(recipe: Any) -> Any:
    """The recipe of a saved plan with the present names of its settings."""
    return rename_old_settings(recipe) if isinstance(recipe, dict) else recipe


class SavedRecord(BaseModel):
    """A value that is kept in a JSON file."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Budget(SavedRecord):
    """How long each row is trained; where nothing is given, as long as its recipe says."""

    steps: PositiveInt | None = None
    tokens: PositiveInt | None = None
    """Target tokens, each as often as it is seen."""
    minutes: PositiveFloat | None = None
    """Of steps alone: validations and checkpoints come on top."""

    def __str__(self) -> str:
        return self.describe("each row")

    def describe(self, rows: str) -> str:
        """What is asked for of those rows."""
        for unit, amount in self.model_dump().items():
            if amount is not None:
                return f"{amount:,} {unit} of training for {rows}"
        return f"as long as its recipe says for {rows}"


class PlanEntry(SavedRecord):
    """A row to be: one system with one seed."""

    label: str
    """The system's; the same for all seeds."""
    recipe: Annotated[Recipe, BeforeValidator(_rename_settings)]
    run: Path | None = None
    """A finished run, which is taken as it is."""

    @property
    def seed(self) -> int:
        return self.recipe.training.seed

    @property
    def name(self) -> str:
        """Tells the row from all others."""
        return f"{self.label}-seed{self.seed}"


class ComparisonPlan(SavedRecord):
    """A comparison, before anything is done."""

    entries: tuple[PlanEntry, ...]
    budget: Budget
    beam: PositiveInt
    """Of the search that all rows are scored and timed with; the rest of it is the recipes'."""
    tokenize: TokenizerChoice = "13a"
    """How BLEU cuts the lines of all rows into words; plans from before this was kept had `13a`."""
    command: tuple[str, ...] = ()
    """What was typed."""
    data: str = ""
    """SHA-256 of the texts that all learn from, once they have been read."""
    at_once: PositiveInt = 1
    """Rows that were trained at a time, at most."""

    @property
    def budget_text(self) -> str:
        """How long the rows were trained, in words."""
        given = sum(entry.run is not None for entry in self.entries)
        if given == len(self.entries):
            return "finished runs as they were"
        if given:
            return f"{self.budget.describe('each row trained here')}; finished runs as they were"
        return str(self.budget)

    def entry(self, name: str) -> PlanEntry:
        """The entry of that name."""
        return next(entry for entry in self.entries if entry.name == name)

    def on(self, digest: str, where: Path) -> "ComparisonPlan":
        """The plan on texts of this digest; an error if it was begun on others."""
        if self.data and self.data != digest:
            raise SettingsError(
                f"{where}: its corpus has changed since the comparison was begun: SHA-256 "
                f"{self.data[:12]}… before, {digest[:12]}… now; compare in another folder"
            )
        return self.model_copy(update={"data": digest})

    def with_tokenizer(self, tokenize: BleuTokenizer) -> "ComparisonPlan":
        """The plan with the tokenizer that its language was found to need."""
        return self.model_copy(update={"tokenize": tokenize})

    def with_jobs(self, rows: int) -> "ComparisonPlan":
        """The plan, of which so many rows are trained at a time now."""
        return self.model_copy(update={"at_once": max(self.at_once, rows)})


def entries_of(recipe: Recipe, label: str, seeds: Sequence[int], budget: Budget) -> list[PlanEntry]:
    """An entry for each seed; without seeds, for the recipe's own."""
    steps = {} if budget.steps is None else {"training.steps": budget.steps}
    return [
        PlanEntry(label=label, recipe=recipe.with_values({"training.seed": seed, **steps}))
        for seed in seeds or (recipe.training.seed,)
    ]


def check_finished(run: RunFolder) -> None:
    """An error unless training there has come to its end, and can be told how long it was."""
    if run.in_use():
        raise SettingsError(f"{run.path}: a process is training there; wait for it, or stop it")
    if not run.finished():
        raise SettingsError(
            f"{run.path}: its training has not reached its end; go on with: "
            f"regard train --resume --out {run.path}"
        )
    if last_progress(run.path) is None:
        raise SettingsError(
            f"{run.path}: its checkpoints, which say how long it was trained, are gone; compare a "
            "run that has one"
        )


def entry_of_run(path: Path, label: str | None) -> PlanEntry:
    """The entry of a finished run."""
    folder = RunFolder(path)
    recipe = folder.load_recipe()
    check_finished(folder)
    return PlanEntry(
        label=label or _label_in_comparison(path, recipe) or recipe.name,
        recipe=recipe,
        run=path.resolve(),
    )


def _label_in_comparison(path: Path, recipe: Recipe) -> str | None:
    """What the comparison that made a run calls its system; None: it was made by none."""
    label, seed, number = path.resolve().name.rpartition("-seed")
    made = (
        path.resolve().parent.name == "runs"
        and (path.resolve().parents[1] / COMPARISON_PLAN_FILE).is_file()
    )
    return label if made and seed and number == str(recipe.training.seed) else None


def make_plan(
    entries: Sequence[PlanEntry],
    budget: Budget,
    beam: int,
    command: Sequence[str] = (),
    *,
    tokenize: TokenizerChoice = "auto",
) -> ComparisonPlan:
    """The plan of these entries, which must be told apart by their names."""
    if not entries:
        raise SettingsError("nothing to compare: give recipes, or folders of finished runs")
    first: dict[str, PlanEntry] = {}
    names: set[str] = set()
    for entry in entries:
        if not LABEL_PATTERN.fullmatch(entry.label) or entry.label.startswith("."):
            raise SettingsError(
                f"{entry.label!r} cannot be the name of a row: give it another one by NAME=RECIPE"
            )
        if entry.name in names:
            raise SettingsError(
                f"two rows are called {entry.label} with seed {entry.seed}: give one of them "
                "another name by NAME=RECIPE"
            )
        names.add(entry.name)
        sibling = first.setdefault(entry.label, entry)
        if _without_seed(sibling) != _without_seed(entry):
            raise SettingsError(
                f"{sibling.name} and {entry.name} differ in more than their seed: "
                f"{differences(_without_seed(sibling), _without_seed(entry))[0]}; give one of them "
                "another name by NAME=RECIPE"
            )
    return ComparisonPlan(
        entries=tuple(entries),
        budget=budget,
        beam=beam,
        tokenize=tokenize,
        command=tuple(command),
    )


def _without_seed(entry: PlanEntry) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(entry.recipe.model_dump_json())
    plain["training"].pop("seed")
    return plain


def check_same_plan(saved: ComparisonPlan, wanted: ComparisonPlan, where: Path) -> None:
    """An error that names what differs, if anything does; `auto` agrees with any tokenizer."""
    if wanted.tokenize == "auto":
        wanted = wanted.model_copy(update={"tokenize": saved.tokenize})
    before, now = _comparable(saved), _comparable(wanted)
    found = differences(before, now)
    if list(before["entries"]) != list(now["entries"]) and not found:
        found = ["its rows stood in another order"]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise SettingsError(
            f"{where}: holds a comparison that was begun with other arguments: {found[0]}{more}; "
            f"go on with it by `regard compare --out {where}`, or compare in another folder"
        )


def _comparable(plan: ComparisonPlan) -> dict[str, Any]:
    """What decides the numbers of a plan, its entries by their names."""
    plain: dict[str, Any] = json.loads(plan.model_dump_json(exclude={"command", "data", "at_once"}))
    names = [entry.name for entry in plan.entries]
    return plain | {"entries": dict(zip(names, plain["entries"], strict=True))}


def differences(before: Any, now: Any, place: str = "") -> list[str]:
    """Where two values of JSON differ, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        return [
            found for key in {**before, **now} for found in _differences_at(key, before, now, place)
        ]
    return (
        []
        if before == now
        else [f"{place} was {_abbreviated(before)} and is now {_abbreviated(now)}"]
    )


def _differences_at(
    key: str, before: dict[str, Any], now: dict[str, Any], place: str
) -> Iterator[str]:
    there = f"{place}.{key}" if place else key
    if key not in now:
        yield f"{there} is no longer there"
    elif key not in before:
        yield f"{there} is new"
    else:
        yield from differences(before[key], now[key], there)


def _abbreviated(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:59]}…"
