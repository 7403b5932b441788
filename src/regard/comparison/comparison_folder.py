"""The folder of a comparison."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from regard.comparison.plan import ComparisonPlan, PlanEntry, entry_of_run
from regard.corpora.token_store import fingerprint
from regard.errors import RunError
from regard.json_files import load_json
from regard.manifest import MANIFEST, list_files
from regard.recipes.auto_settings import AUTO_CLEANING
from regard.recipes.recipe import Recipe
from regard.recipes.run_folder import COMPARISON_PLAN_FILE, RunFolder


@dataclass(frozen=True)
class ComparisonFolder:
    """Paths of the parts of a comparison."""

    path: Path

    @property
    def plan(self) -> Path:
        """The plan."""
        return self.path / COMPARISON_PLAN_FILE

    @property
    def corpora(self) -> Path:
        """The cleaned corpora, of which all rows share one."""
        return self.path / "corpus"

    def corpus(self, recipe: Recipe) -> RunFolder:
        """The cleaned corpus of a recipe, as a run folder without a model."""
        auto = [setting for setting in recipe.auto if setting in AUTO_CLEANING]
        name = fingerprint(recipe.corpus.model_dump_json(), *auto)[:12]
        return RunFolder(self.corpora / name)

    def run(self, entry: PlanEntry) -> RunFolder:
        """The run of a row."""
        return RunFolder(entry.run or self.path / "runs" / entry.name)

    def row(self, entry: PlanEntry) -> Path:
        """The measurements of a row, or its failure."""
        return self.path / "rows" / f"{entry.name}.json"

    def findings(self, entry: PlanEntry) -> Path:
        """The measurements of a row that need no clock."""
        return self.path / "found" / f"{entry.name}.json"

    def translations(self, entry: PlanEntry) -> Path:
        """A row's translations of the test set."""
        return self.path / "rows" / f"{entry.name}.txt"

    def log(self, entry: PlanEntry) -> Path:
        """The output of a row's process."""
        return self.path / "logs" / f"{entry.name}.log"

    def steps(self, entry: PlanEntry) -> Path:
        """The number of steps that a budget in minutes is for a system."""
        return self.path / "steps" / f"{entry.label}.json"

    def finished_entries(self) -> list[PlanEntry]:
        """Its finished runs as rows of another comparison, in the order of its plan."""
        entries = [
            entry_of_run(self.run(entry).path, entry.label)
            for entry in self.load_plan().entries
            if self.run(entry).finished()
        ]
        if not entries:
            raise RunError(f"{self.path}: none of its rows is finished; go on with it first")
        return entries

    def check_no_run(self) -> None:
        """An error if the folder holds a run."""
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
        return load_json(self.plan, ComparisonPlan, advice="compare in another folder")
