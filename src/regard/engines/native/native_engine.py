"""The engine that supports every request: our own models and search, in torch."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import torch
from torch import nn

from regard.batching.worker_pool import WorkerPool
from regard.decoding.batch_search import (
    RunJobs,
    SearchJob,
    SearchMember,
    SearchResults,
    one_thread,
    search_batch,
    search_many,
)
from regard.decoding.constraints.forbidden_phrases import forbidden_phrases
from regard.decoding.constraints.rules import Constraints
from regard.decoding.gpu.cuda_graph_cache import CudaGraphCache
from regard.decoding.reranking import rerank
from regard.decoding.tracing.observer import ObserverGroup
from regard.engines.engine_tuning import CPU_BUDGET, EngineConfig, count_cores
from regard.engines.native.attention_capture import capture_attention
from regard.engines.native.unknown_words import build_unknown_replacer
from regard.engines.translation_request import EngineResult, TranslationRequest
from regard.errors import RunError, RunWarning, SettingsError
from regard.inspection.interventions import ForcedPositions, Intervention
from regard.inspection.recording.attention_map import Part
from regard.inspection.recording.recorder import compose_hooks, count_heads
from regard.kernels.cuda_graphs import CudaGraphs
from regard.layers.quantized import NativePrecision
from regard.recipes.memory import available_memory
from regard.recipes.open_run import LoadedFrom, Run, open_run
from regard.recipes.paths import require_different
from regard.recipes.run_folder import pick_device
from regard.tasks.registry import tasks_of_pairs
from regard.text.preprocess import TokenizedLine, part_id
from regard.types import AttentionHook, Hypothesis

CPU = torch.device("cpu")
DEFAULT_BUDGET = 16_384  # positions searched at a time, times hypotheses, if none were measured
PARAMETERS_PER_BYTE = 256  # model parameters per byte of a position on a GPU: docs/performance.md
MIN_BYTES_PER_POSITION = 64 * 1024  # small models need more than their parameters suggest
GRAPH_MEMORY_SHARE = 1 / 8  # the share of a GPU's memory that captured searches may hold


class NativeEngine:
    """One run, or an ensemble of several that share a target vocabulary."""

    def __init__(self, runs: Sequence[Run], engine_config: EngineConfig | None = None) -> None:
        self.runs = tuple(runs)
        self._target = runs[0].tokenizers.target
        self.budget, workers = default_budget([run.model for run in runs]), count_cores()
        self.on_cpu = next(runs[0].model.parameters()).device.type == "cpu"
        if engine_config is not None and self.on_cpu:  # they are measured on a CPU
            workers = engine_config.workers
            self.budget = engine_config.budget if engine_config.engine == "native" else self.budget
        self._run_jobs = job_runner(runs, workers)

    @staticmethod
    def open_runs(
        paths: Sequence[str | Path],
        *,
        device: str,
        weights: str,
        precision: str = "auto",
        adapter: str | None = None,
    ) -> list[Run]:
        """The runs of some folders, loaded to a device; the precision `auto` is float32. The
        adapter is applied to the first run.
        """
        require_different(paths, adapter)
        known = ", ".join(get_args(NativePrecision))
        chosen = next(
            (name for name in get_args(NativePrecision) if precision in (name, "auto")), None
        )
        if chosen is None:
            raise SettingsError(
                f"--precision {precision} needs CTranslate2; the native engine has {known}"
            )
        place = pick_device(device)
        adapters = [adapter, *[None] * (len(paths) - 1)]
        return [
            open_run(
                path,
                device=place,
                weights=weights,
                precision=chosen,
                adapter=one,
                tasks=tasks_of_pairs(),
            )
            for path, one in zip(paths, adapters, strict=True)
        ]

    def translate_lines(
        self, lines: Sequence[Sequence[TokenizedLine]], request: TranslationRequest
    ) -> list[EngineResult]:
        """The translation of each line, in order; `lines` holds the lines for each model."""
        hook = compose_hooks(*request.changes) if request.changes else None
        filler = None
        if request.unknown is not None:
            filler = build_unknown_replacer(
                self.runs, request.unknown, request.prefix, request.forbidden, hook
            )
        if request.changes:
            check_interventions(self.runs, request.changes, lines[0])
        found = self._search(lines, request, hook)
        if filler is not None:
            found = filler.replace_in_lines(lines[self.runs.index(filler.run)], found)
        if not request.look:
            return [EngineResult(parts) for parts in found]
        return [
            EngineResult(
                parts, capture_attention(self.runs[0], line, parts, hook, scores=request.scores)
            )
            for line, parts in zip(lines[0], found, strict=True)
        ]

    def _search(
        self,
        lines: Sequence[Sequence[TokenizedLine]],
        request: TranslationRequest,
        hook: AttentionHook | None,
    ) -> list[list[list[Hypothesis]]]:
        """The n best translations of each part of each line."""
        parts = [
            (number, part)
            for number, line in enumerate(lines[0], request.first)
            for part in range(len(line.parts))
        ]
        prefix_ids = self._target.encode([request.prefix])[0]
        opening = list(self._target.opening)
        observers, settings = request.observers, request.settings
        found = search_many(
            [
                SearchMember(run.model, [part for line in tokenized for part in line.parts])
                for run, tokenized in zip(self.runs, lines, strict=True)
            ],
            settings.model_copy(update={"n_best": settings.num_candidates}),
            budget=self.budget,
            constraints=Constraints(
                [opening if part else prefix_ids for _, part in parts],
                forbidden_phrases(request.forbidden, self._target) if request.forbidden else (),
                opening=len(opening),
            ),
            numbers=[part_id(*part) for part in parts],
            hook=hook,
            observe=ObserverGroup(*observers)
            if len(observers) > 1
            else next(iter(observers), None),
            run_jobs=self._run_jobs,
        )
        results = iter(rerank(self.runs[0].model, found, settings, budget=self.budget))
        return [[next(results) for _ in line.parts] for line in lines[0]]


def check_interventions(
    runs: Sequence[Run], interventions: Sequence[Intervention], lines: Sequence[TokenizedLine]
) -> None:
    """Raise if an intervention cannot be applied to `lines`, in tokens of the first run."""
    for run in runs if interventions else ():
        heads = count_heads(run.model)
        for intervention in interventions:
            _check_head(run, heads, intervention)
    for forced in interventions:
        if isinstance(forced, ForcedPositions):
            _check_one_sentence(runs, lines)
            length = len(lines[0].parts[0]) + 1  # with EOS
            if max(forced.columns) >= length:
                raise SettingsError(
                    f"force: the sentence has {length} positions, counted from 0; got "
                    f"{max(forced.columns)}"
                )


def _check_head(
    run: Run, parts: Mapping[Part, Mapping[int, int]], intervention: Intervention
) -> None:
    """Raise if the model has no such layer or head."""
    part, layer, head = intervention.part, intervention.layer, intervention.head
    heads = parts.get(part)
    if heads is None:
        raise SettingsError(
            f"{run.folder.path}: a model of the family {run.recipe.model.family} has no {part} "
            f"attention to change; it has: {', '.join(parts) or 'none'}"
        )
    of_run = f"{part} attention of {run.folder.path}"
    if layer is not None and layer not in heads:
        raise SettingsError(f"layer: {of_run} has {len(heads)}, counted from 0; got {layer}")
    num_heads = min(heads.values()) if layer is None else heads[layer]
    if head is not None and not 0 <= head < num_heads:
        raise SettingsError(f"head: {of_run} has {num_heads}, counted from 0; got {head}")


def _check_one_sentence(runs: Sequence[Run], lines: Sequence[TokenizedLine]) -> None:
    """Raise unless there is one sentence, in one part, with the same tokens for all models."""
    if len(lines) != 1:
        raise SettingsError(
            f"force: a link is between words of one sentence, and there are {len(lines)}; give "
            "them one by one"
        )
    parts = len(lines[0].parts)
    if parts != 1:
        found = f"translated in {parts} parts" if parts else "not translated"
        raise SettingsError(
            f"force: the line is {found}, so there is no single map to force a link in: give one "
            "sentence that is not too long for the model"
        )
    if len({run.tokenizers.source.fingerprint() for run in runs}) > 1:
        raise SettingsError(
            "force: the models tokenize the sentence differently, so that a position is not the "
            "same word for all; force a link in one of them alone"
        )


def has_gpu() -> bool:
    """Whether the device `auto` is a GPU."""
    return pick_device("auto").type == "cuda"


def default_budget(models: Sequence[nn.Module]) -> int:
    """Positions to search at a time on the models' device: on a GPU, what its memory allows."""
    parameters = [x for model in models for x in model.parameters()]
    device = parameters[0].device
    if device.type == "cuda":
        position = sum(x.numel() for x in parameters) // PARAMETERS_PER_BYTE
        memory = available_memory(device)
        return max(DEFAULT_BUDGET, memory // max(MIN_BYTES_PER_POSITION, position))
    return CPU_BUDGET if device.type == "cpu" else DEFAULT_BUDGET


def job_runner(runs: Sequence[Run], workers: int) -> RunJobs | None:
    """A function that searches batches for `runs`; None: `search_many` does so itself.

    On a GPU it is a cache of CUDA graphs for small batches. On a CPU with several `workers` it is a
    process pool, if the models came from folders: each process loads them, and the pool is started
    only when the work is worth it.
    """
    models = [run.model for run in runs]
    origins = [run.loaded_from for run in runs if run.loaded_from is not None]
    devices = {parameter.device for model in models for parameter in model.parameters()}
    device = next(iter(devices))
    if device.type == "cuda" and len(devices) == 1:
        max_bytes = int(available_memory(device) * GRAPH_MEMORY_SHARE)
        vocabulary = runs[0].tokenizers.target.size
        return CudaGraphCache(models, vocabulary, CudaGraphs(device), max_bytes).run_jobs
    if workers == 1 or len(origins) < len(runs) or devices != {CPU}:
        return None
    pool = WorkerPool(partial(load_search, origins), workers - 1)
    run_here = one_thread()(partial(search_batch, models))
    return lambda jobs: [run_here(*jobs)] if len(jobs) == 1 else pool.map_jobs(jobs, run_here)


def load_search(origins: Sequence[LoadedFrom]) -> Callable[[SearchJob], SearchResults]:
    """The search that a worker process runs: it loads the models, which must be unchanged."""
    torch.set_num_threads(1)
    models = []
    for origin in origins:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RunWarning)  # already shown by the parent process
            run = open_run(
                origin.path,
                device=CPU,
                weights=origin.weights,
                precision=origin.precision,
                adapter=origin.adapter,
            )
        if run.loaded_from != origin:
            raise RunError(f"{origin.path}: its weights have changed since they were loaded")
        models.append(run.model)
    return partial(search_batch, models)
