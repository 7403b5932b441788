"""Who helps a native search: other cores, each with a process of its own, or records of a GPU."""

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import torch

from regard.batching.worker_pool import WorkerPool
from regard.decoding.batch_search import SearchJob, SearchPool, SearchResults, search_batch
from regard.decoding.gpu.cuda_graph_cache import CudaGraphCache
from regard.errors import RunError, RunWarning
from regard.kernels.cuda_graphs import CudaGraphs
from regard.recipes.memory import available_memory
from regard.recipes.run_folder import LoadedFrom, Run, load_run

CPU = torch.device("cpu")
GRAPH_MEMORY_SHARE = 1 / 8
"""Of a GPU's memory, which records of searches may hold."""


def make_pool(runs: Sequence[Run], workers: int) -> SearchPool | None:
    """Whoever takes work over for the models of `runs`.

    On CPUs helpers, one less than `workers`; none is started before it pays. On a GPU who records
    searches of few sentences and replays them. None where all is done here: by one worker, or with
    models that another process could not load.
    """
    openings = [run.opened for run in runs if run.opened is not None]
    devices = {parameter.device for run in runs for parameter in run.model.parameters()}
    where = next(iter(devices))
    if where.type == "cuda" and len(devices) == 1:
        models, max_bytes = (
            [run.model for run in runs],
            int(available_memory(where) * GRAPH_MEMORY_SHARE),
        )
        return CudaGraphCache(models, runs[0].tokenizers.target.size, CudaGraphs(where), max_bytes)
    if workers == 1 or len(openings) < len(runs) or devices != {CPU}:
        return None
    return WorkerPool(partial(load_search, openings), workers - 1)


def load_search(openings: Sequence[LoadedFrom]) -> Callable[[SearchJob], SearchResults]:
    """What a helper does with a job; the models are loaded now, and must be the same still."""
    torch.set_num_threads(1)
    models = []
    for opening in openings:
        path, weights, precision, _ = opening
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)  # the parent process has shown it
            run = load_run(path, device=CPU, weights=weights, precision=precision)
        if run.opened != opening:
            raise RunError(f"{path}: its weights have changed since they were loaded")
        models.append(run.model)
    return partial(search_batch, models)
