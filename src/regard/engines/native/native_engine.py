"""The engine that can do everything: our own models, search and recorder, with torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from torch import nn

from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.constraints.rules import Constraints
from regard.decoding.tracing.observer import ObserverGroup, SearchObserver
from regard.engines.engine import (
    EngineResult,
    FilledHypothesis,
    TranslationRequest,
    forbidden_phrases,
)
from regard.engines.native.capture_attention import capture_attention
from regard.engines.native.intervention_checks import check_interventions
from regard.engines.native.parallel_search import make_pool
from regard.engines.native.unknown_words import build_unknown_replacer
from regard.engines.tuned_engine import CPU_BUDGET, EngineConfig, count_cores
from regard.errors import SettingsError
from regard.inspection.recording.attention_map import chain
from regard.layers.quantized import Precision
from regard.recipes.memory import available_memory
from regard.recipes.run_folder import Run, load_run, pick_device
from regard.text.preprocess import TokenizedLine, part_id
from regard.types import AttentionHook, Hypothesis

DEFAULT_BUDGET = 16_384
"""Positions searched at a time, counted once for each hypothesis; where nothing was measured."""
PARAMETERS_PER_BYTE = 256
"""Of a model for each byte of a GPU's memory that one of them takes: who is wide and deep leaves
more behind. The paper's base model is the measure.

In float32 a token of an answer takes 24 KiB in its six layers; there is room for twice as many as
there are, which is thrice while they move to a larger one, and answers are up to twice as long as
their sources: 144 KiB. The logits of 32,000 pieces, before and behind a softmax, are 250 KiB for a
hypothesis, and so 62 KiB for each position of the shortest sources (`SHORTEST`). That is 206 KiB,
and it has 61 million parameters.
"""
MIN_BYTES_PER_POSITION = 64 * 1024
"""The least bytes for each of them: what small models have fewer parameters for is their width,
which counts twice in parameters and once here."""


class NativeEngine:
    """One run, or several with one target vocabulary that vote."""

    def __init__(self, runs: Sequence[Run], choice: EngineConfig | None = None) -> None:
        self.runs = tuple(runs)
        self._target = runs[0].tokenizers.target
        self.budget, workers = default_budget([run.model for run in runs]), count_cores()
        self.on_cpu = next(runs[0].model.parameters()).device.type == "cpu"
        if choice is not None and choice.engine == "native" and self.on_cpu:
            self.budget, workers = choice.budget, choice.workers  # what was measured on a CPU
        self._pool = make_pool(runs, workers)

    @staticmethod
    def open_runs(
        paths: Sequence[str | Path], *, device: str, weights: str, precision: str = "auto"
    ) -> list[Run]:
        """The runs in some folders, ready on the device of that name; `auto` is float32."""
        known = get_args(Precision)
        chosen = next((one for one in known if precision in (one, "auto")), None)
        if chosen is None:
            raise SettingsError(
                f"--precision {precision} is CTranslate2's; the native engine has "
                f"{', '.join(known)}"
            )
        where = pick_device(device)
        return [load_run(path, device=where, weights=weights, precision=chosen) for path in paths]

    def unsupported_reason(self, request: TranslationRequest) -> str | None:
        return None

    def translate_lines(
        self, lines: Sequence[Sequence[TokenizedLine]], request: TranslationRequest
    ) -> list[EngineResult]:
        hook = chain(*request.changes) if request.changes else None
        filler = None
        if request.unknown is not None:
            filler = build_unknown_replacer(
                self.runs, request.unknown, request.prefix, request.forbidden, hook
            )
        check_interventions(self.runs, request.changes, lines[0])
        found = self._search(lines, request, hook)
        if filler is None:
            said = [[[FilledHypothesis(one) for one in best] for best in parts] for parts in found]
        else:
            said = filler.replace_in_lines(lines[self.runs.index(filler.run)], found)
        return [
            EngineResult(
                parts,
                capture_attention(self.runs[0], line, [best[0] for best in parts], hook)
                if request.look
                else (),
            )
            for line, parts in zip(lines[0], said, strict=True)
        ]

    def _search(
        self,
        lines: Sequence[Sequence[TokenizedLine]],
        request: TranslationRequest,
        hook: AttentionHook | None,
    ) -> list[list[list[Hypothesis]]]:
        """The n best translations of each part of each line."""
        places = [
            (number, part)
            for number, line in enumerate(lines[0], request.first)
            for part in range(len(line.parts))
        ]
        prefix_ids = self._target.encode([request.prefix])[0]
        found = search_many(
            self._members(lines),
            request.settings,
            budget=self.budget,
            constraints=Constraints(
                [[] if part else prefix_ids for _, part in places],
                forbidden_phrases(request.forbidden, self._target),
            ),
            numbers=[part_id(*place) for place in places],
            hook=hook,
            observe=_combined_observer(request.observers),
            pool=self._pool,
        )
        results = iter(found)
        return [[next(results) for _ in line.parts] for line in lines[0]]

    def _members(self, lines: Sequence[Sequence[TokenizedLine]]) -> list[SearchMember]:
        """Each model with the parts of all lines in its own tokens."""
        return [
            SearchMember(run.model, [part for line in own for part in line.parts])
            for run, own in zip(self.runs, lines, strict=True)
        ]


def has_gpu() -> bool:
    """Whether the device `auto` is a GPU here."""
    return pick_device("auto").type == "cuda"


def default_budget(models: Sequence[nn.Module]) -> int:
    """Positions to search at a time, where these are: on a GPU as many as its memory may hold."""
    parameters = [x for model in models for x in model.parameters()]
    where = parameters[0].device
    if where.type == "cuda":
        each = max(
            MIN_BYTES_PER_POSITION, sum(x.numel() for x in parameters) // PARAMETERS_PER_BYTE
        )
        return max(DEFAULT_BUDGET, available_memory(where) // each)
    return CPU_BUDGET if where.type == "cpu" else DEFAULT_BUDGET


def _combined_observer(observers: Sequence[SearchObserver]) -> SearchObserver | None:
    """One that stands for all; None: nobody is to be told."""
    if len(observers) > 1:
        return ObserverGroup(*observers)
    return next(iter(observers), None)
