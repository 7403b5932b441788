"""Native searches on all cores: one here, and one in a process of its own for each other core."""

from collections.abc import Callable, Sequence
from functools import partial

import torch

from regard.batching.crew import Crew
from regard.decoding.many import Job, search_batch
from regard.errors import RunError
from regard.nouns import Hypothesis
from regard.recipes.run_folder import Opening, Run, load_run

CPU = torch.device("cpu")
Found = list[list[Hypothesis]]


def make_crew(runs: Sequence[Run], workers: int) -> Crew[Job, Found] | None:
    """Helpers for the models of `runs`, one less than `workers`; none is started before it pays.

    None where all is done here: on a GPU, by one worker, or with models that another process could
    not load.
    """
    openings = [run.opened for run in runs if run.opened is not None]
    devices = {parameter.device for run in runs for parameter in run.model.parameters()}
    if workers == 1 or len(openings) < len(runs) or devices != {CPU}:
        return None
    return Crew(partial(open_search, openings), workers - 1)


def open_search(openings: Sequence[Opening]) -> Callable[[Job], Found]:
    """What a helper does with a job; the models are loaded now, and must be the same still."""
    torch.set_num_threads(1)
    models = []
    for opening in openings:
        path, weights, precision, _ = opening
        run = load_run(path, device=CPU, weights=weights, precision=precision)
        if run.opened != opening:
            raise RunError(f"{path}: its weights have changed since they were loaded")
        models.append(run.model)
    return partial(search_batch, models)
