"""The evaluation of runs on the same examples, as `regard evaluate` does it for any task."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, NamedTuple

from regard.errors import SettingsError
from regard.evaluation.scores import Comparison
from regard.recipes.open_run import Run, open_run
from regard.recipes.paths import require_different, run_spec
from regard.recipes.run_folder import pick_device
from regard.tasks.contracts import Evaluation, Notify, SplitName


class EvaluationOptions(NamedTuple):
    """The options of `regard evaluate` that matter for the scores."""

    model: str
    ensemble: Sequence[str] = ()  # further models that answer together with it
    against: str | None = None  # another model that it is tested against
    source: str | None = None
    reference: str | None = None
    data: Sequence[str] = ()  # files to use instead of the run's own test data
    output: Path | None = None
    beam: int | None = None
    unknown: str | None = None
    tokenize: Any = "auto"
    lowercase: bool = False
    by_length: bool = False
    weights: str = "model"
    adapter: str | None = None
    device: str = "auto"
    engine: Any = "auto"
    precision: Any = "float32"


class Evaluator:
    """Measures runs on batches of their data; tasks whose answers are measured derive from it."""

    uses: ClassVar[str] = "data"
    """The options that not all tasks have, separated by spaces."""

    def __init__(self, options: EvaluationOptions, tell: Notify) -> None:
        self.options, self.tell = options, tell

    @classmethod
    def after_training(cls, run: Run) -> Evaluation:
        """The evaluation of a run on its held-out data, which is saved with it."""
        return cls.measure([run], run.task.held_out())

    @classmethod
    def measure(cls, runs: Sequence[Run], split: SplitName) -> Evaluation:
        """The numbers of a run, or of several that answer together, on a split."""
        evaluation: Evaluation = runs[0].task.evaluate(runs[0].model, split)
        return evaluation

    @classmethod
    def compare(cls, runs: Sequence[Run], other: Run, split: SplitName) -> list[Comparison]:
        """Paired tests of the same against another run."""
        tests: list[Comparison] = runs[0].task.compare(
            runs[0].model, other.task, other.model, split
        )
        return tests

    def evaluate(self) -> Evaluation:
        """The evaluation that the options ask for."""
        o = self.options
        require_different((o.model, *o.ensemble), o.adapter)
        open_same = partial(
            open_run, device=pick_device(o.device), tasks=[run_spec(Path(o.model)).name]
        )
        runs = [
            open_same(o.model, weights=o.weights, adapter=o.adapter),
            *(open_same(member, weights=o.weights) for member in o.ensemble),
        ]
        others = [] if o.against is None else [open_same(o.against)]
        with TemporaryDirectory(prefix="regard-evaluate-", ignore_cleanup_errors=True) as folder:
            split = held_out_split([*runs, *others], o.data, Path(folder))
            measured = self.measure(runs, split)
            tests = [test for other in others for test in self.compare(runs, other, split)]
        return replace(
            measured, split=", ".join(o.data) or measured.split, comparisons=tuple(tests)
        )


def held_out_split(runs: Sequence[Run], files: Sequence[str], folder: Path) -> SplitName:
    """The split to measure runs on: the first run's, or `test`, if it is read from `files`."""
    if not files:
        for run in runs:
            if run.recipe.is_imported:
                raise SettingsError(
                    f"{run.folder.path}: was imported and has no data; name some to "
                    "measure it on, with --data FILE"
                )
        split: SplitName = runs[0].task.held_out()
        return split
    for number, run in enumerate(runs):
        run.task.read_test(files, folder / str(number))
    return "test"
