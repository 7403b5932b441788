"""A stage of `translate_gpu`: small batches, as a server gets them, in each of three ways.

`first` is our search for a batch of a new shape: it captures one step and replays that for all
later ones. `replayed` replays the CUDA graphs that earlier batches have left in a cache. The third
is the peer's. Ours are timed in turn once everything is captured; the time and memory that
capturing took are recorded beside them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any
from unittest import mock

import torch

from bench.gpu_search import Ids, StageConfig, until_eos
from bench.peers import is_installed
from bench.peers.training_loop import wait_for_device
from bench.stages import Records
from regard.decoding.batch_search import RunJobs, SearchMember, search_many
from regard.decoding.gpu import cuda_graph_cache
from regard.decoding.gpu.cuda_graph_cache import CudaGraphCache
from regard.kernels import dispatch
from regard.kernels.cuda_graphs import CudaGraphs, Replay
from regard.models.contracts import AnyGenerator
from regard.text.special_tokens import EOS

BATCHES = 10
"""Of each size."""
PASSES = 6
"""Passes over the batches of a size, at most, until all graphs are captured."""
ROOM = 1 << 40
"""Bytes that cached graphs may hold: no limit, as what they hold is recorded."""

Search = Callable[[Ids], Ids]


class EagerReplay(CudaGraphs):
    """Stands in for CUDA graphs on a CPU: replays work by doing it again."""

    def __init__(self) -> None: ...

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        yield

    def capture(self, work: Replay) -> Replay:
        return work

    def memory_in_use(self) -> int:
        return 0


def stage(name: str, task: StageConfig) -> Records:
    """What the stage finds: of each size, how long a batch takes in each way."""
    dispatch.disabled.update(task.asked.without)
    model, where = task.model(), task.device
    capturer = CudaGraphs(where) if where.type == "cuda" else EagerReplay()
    cache = CudaGraphCache([model], task.prepared.shape.vocabulary, capturer, ROOM)
    first = partial(_ours, task, model, None)
    replayed = partial(_ours, task, model, cache.run_jobs)
    theirs = _theirs(task) if is_installed("hugging_face") else None
    with mock.patch.object(cuda_graph_cache, "MAX_CAPTURED_HYPOTHESES", 10**9):
        for size in task.asked.small:
            given = batches(task.prepared.sources, size)
            yield _record(task, cache, given, replayed)
            ways = {"regard, first": first, "regard, replayed": replayed}
            yield from _compare(task, given, ways | ({"Hugging Face": theirs} if theirs else {}))


def batches(sources: Sequence[Sequence[int]], size: int) -> list[Ids]:
    """Batches of so many sentences, spread over all of them."""
    count = max(1, min(BATCHES, len(sources) // size))
    apart = len(sources) // count
    return [
        [list(row) for row in sources[first : first + size]]
        for first in range(0, count * apart, apart)
    ]


def _ours(task: StageConfig, model: AnyGenerator, run_jobs: RunJobs | None, batch: Ids) -> Ids:
    members = [SearchMember(model, batch)]
    found = search_many(members, task.settings, budget=10**9, run_jobs=run_jobs)
    return [list(best[0].tokens) for best in found]


def _theirs(task: StageConfig) -> Search:
    """The peer's search, without a cache of ours."""
    peer = import_module("bench.peers.hugging_face")
    model = peer.convert(task.prepared.shape, task.weights)
    model = model.to(task.device, getattr(torch, task.precision))
    how = {"beam": task.asked.beam, "length_penalty": task.prepared.length_penalty}

    def search(batch: Ids) -> Ids:
        said = peer.generate(model, [[*row, EOS] for row in batch], **how)
        return [until_eos(row) for row in said]

    return search


def _timed(task: StageConfig, search: Search, batch: Ids) -> tuple[float, Ids]:
    """Milliseconds, and what was found."""
    wait_for_device(task.device)
    began = time.perf_counter()
    found = search(batch)
    return 1e3 * (time.perf_counter() - began), found


def _record(
    task: StageConfig, cache: CudaGraphCache, given: Sequence[Ids], replayed: Search
) -> dict[str, Any]:
    """The time and memory of capturing the searches for all batches."""
    before, free = (cache.steps, cache.bytes_held), _free(task.device)
    spent, passes, last = 0.0, 0, -1
    while passes < 2 or (cache.steps > last and passes < PASSES):
        last = cache.steps
        spent += sum(_timed(task, replayed, batch)[0] for batch in given)
        passes += 1
    replay_ms = sum(_timed(task, replayed, batch)[0] for batch in given)
    return {
        "small": len(given[0]),
        "precision": task.precision,
        "graphs": cache.steps - before[0],
        "recording_s": round((spent - passes * replay_ms) / 1e3, 3),
        "held_mb": (cache.bytes_held - before[1]) / 1e6,
        "device_mb": (free - _free(task.device)) / 1e6,
        "not_recorded": cache.failed,
    }


def _free(where: torch.device) -> int:
    """Free bytes of a GPU's memory; 0 on a CPU."""
    return torch.cuda.mem_get_info(where)[0] if where.type == "cuda" else 0


def _compare(task: StageConfig, given: Sequence[Ids], ways: dict[str, Search]) -> Records:
    """How long a batch takes in each way, and whether all find the same."""
    spent: dict[str, list[float]] = {who: [] for who in ways}
    found: dict[str, list[Ids]] = {}
    for search in ways.values():
        search(given[0])  # one-time work such as compilation
    for number in range(task.asked.rounds):
        for who, search in ways.items():
            if number and who == "Hugging Face":
                continue  # it takes longer than all of ours
            each = [_timed(task, search, batch) for batch in given]
            spent[who] += [ms for ms, _ in each]
            found[who] = [answers for _, answers in each]
    wanted = [row for batch in found["regard, first"] for row in batch]
    for who, ms in spent.items():
        rows = [row for batch in found[who] for row in batch]
        yield {
            "small": len(given[0]),
            "precision": task.precision,
            "who": who,
            "ms": median(ms),
            "ms_least": min(ms),
            "ms_most": max(ms),
            "compared": len(rows),
            "same_as_first": sum(mine == first for mine, first in zip(rows, wanted, strict=True)),
        }
