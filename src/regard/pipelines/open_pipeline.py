"""The pipeline of runs that torch alone can use."""

from pathlib import Path
from typing import Any

from regard.errors import SettingsError
from regard.recipes.open_run import open_run
from regard.recipes.paths import require_different
from regard.recipes.run_folder import pick_device
from regard.tasks.registry import tasks_of


def open_pipeline(
    path: str | Path,
    *others: str | Path,
    device: str = "auto",
    weights: str = "model",
    adapter: str | None = None,
    verb: str | None = None,
) -> Any:
    """The pipeline of a run; with `others`, of an ensemble whose first run has the adapter. An
    error if they are not of the same task, or not used by the command `verb`.
    """
    require_different((path, *others), adapter)
    place, tasks = pick_device(device), () if verb is None else tasks_of(verb)
    run = open_run(path, device=place, weights=weights, adapter=adapter, tasks=tasks)
    if others and not run.spec.ensembles:
        raise SettingsError(f"{path}: its task is {run.spec.name}, which has no ensembles")
    same = (run.spec.name,)
    rest = [open_run(one, device=place, weights=weights, tasks=same) for one in others]
    return run.spec.pipeline()(run, *rest)
