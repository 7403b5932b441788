"""How fast a run translates with each engine.

torch is not imported here: it would count in the memory that is measured.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple, TypeVar

from regard.batching.worker_pool import WorkerDiedError, run_in_worker
from regard.decoding.settings import DecodingSettings, portable_settings, search_settings
from regard.engines.ctranslate2.export_artifact import ExportPrecision
from regard.engines.engine_tuning import (
    CPU_BUDGET,
    CT2_BUDGET,
    EngineConfig,
    EngineName,
    count_cores,
)
from regard.errors import RegardError, RunError, StorageError
from regard.recipes.process_memory import peak_rss
from regard.tasks.translation.pipeline import Translator, load

T = TypeVar("T")

BUDGETS = (1024, 2048, 4096)  # batch sizes, in positions, that are tried for a stream
MIN_GAIN_RATIO = 0.95  # another budget must take less than this share of the best time so far
MIN_SECONDS = 1.0  # seconds after which a stream is not timed again
ROUNDS = 3  # maximum number of times that a stream is timed
LATENCY_SENTENCES = 20  # sentences that are translated one at a time
WARMUP_ROUNDS = 3  # on a GPU: a sentence's CUDA graphs are captured in the second


class EngineVariant(NamedTuple):
    """An engine, the precision of its weights, and its device."""

    engine: EngineName
    precision: ExportPrecision
    device: Literal["cpu", "cuda"] = "cpu"

    def __str__(self) -> str:
        return f"{self.engine} {self.precision}{'' if self.device == 'cpu' else ' GPU'}"

    @property
    def may_be_default(self) -> bool:
        """Whether `auto` may choose it: on a CPU, native float32 or an export that passed."""
        exact = self.engine == "ctranslate2" or self.precision == "float32"
        return exact and self.device == "cpu"


class VariantTiming(NamedTuple):
    """The measurements of one variant."""

    choice: EngineConfig  # the fastest for a stream
    loading: float  # seconds to load the translator, without imports
    sentences: float  # sentences per second of a stream
    tokens: float  # target tokens per second of a stream
    milliseconds: float  # median latency of one sentence
    megabytes: float  # peak memory of the process
    texts: tuple[str, ...]  # the translations of the stream


class UnavailableVariant(NamedTuple):
    """A variant that could not be measured."""

    why: str
    transient: bool = False  # whether a retry may work: full disk, killed process


ON_CPU = (
    EngineVariant("ctranslate2", "int8"),
    EngineVariant("ctranslate2", "float32"),
    EngineVariant("native", "int8"),
)
ON_GPU = (EngineVariant("native", "bfloat16", "cuda"), EngineVariant("native", "float32", "cuda"))
REFERENCE_VARIANT = EngineVariant("native", "float32")  # the others are compared with it


def list_variants() -> list[EngineVariant]:
    """The variants that this machine may have, the most exact one last."""
    return [*ON_CPU, *(ON_GPU if _in_worker(_find_gpu) else ()), REFERENCE_VARIANT]


def _find_gpu() -> bool:
    """Whether there is a GPU: only a worker process imports torch."""
    from regard.engines.native.native_engine import has_gpu

    return has_gpu()


def time_variant(
    run: Path, variant: EngineVariant, texts: Sequence[str], beam: int | None
) -> VariantTiming | UnavailableVariant:
    """The measurements of a variant in a separate process, or why it is unavailable.

    A missing export is made by another process first, so that torch does not count in the memory.
    """
    measure = partial(_measure, run, variant, tuple(texts), beam)
    try:
        if variant.engine == "ctranslate2":
            _in_worker(partial(_prepare_engine, run, variant))
        return _in_worker(measure)
    except RegardError as error:
        return UnavailableVariant(str(error), isinstance(error, (StorageError, _WorkerDiedError)))


class _WorkerDiedError(RunError):
    """A measuring process ended without a result."""


def _in_worker(work: Callable[[], T]) -> T:
    """The result of `work()` in a separate process."""
    try:
        return run_in_worker(work)
    except WorkerDiedError as error:
        raise _WorkerDiedError(
            f"its process ended with status {error.status}; was it killed, or out of memory? Try "
            "fewer --sentences"
        ) from None


def _prepare_engine(run: Path, variant: EngineVariant) -> str:
    """The name of the engine to measure, once its export is made."""
    return load(run, device="cpu", engine=variant.engine, precision=variant.precision).engine_for()


def _measure(
    run: Path, variant: EngineVariant, texts: Sequence[str], beam: int | None
) -> VariantTiming:
    """The measurements, with search settings that all engines support."""
    open_translator = partial(
        load, run, device=variant.device, engine=variant.engine, precision=variant.precision
    )
    run_settings = open_translator().settings  # this also fills the file cache
    settings = portable_settings(search_settings(run_settings, beam=beam))
    loading, translator = _timed(open_translator)
    latency_texts = [text for text in texts if text.strip()][:LATENCY_SENTENCES]
    for text in latency_texts[:1] if variant.device == "cpu" else WARMUP_ROUNDS * latency_texts:
        # warm up libraries and CUDA graphs
        translator.translate([text], settings, split=False)
    latencies = [
        _timed(partial(translator.translate, [text], settings))[0] for text in latency_texts
    ]
    engine, precision, _ = variant
    fastest = math.inf
    for budget in _budgets(variant, translator):
        config = EngineConfig(
            engine=engine, precision=precision, workers=count_cores(), budget=budget
        )
        seconds = _time_stream(open_translator(choice=config), texts, settings)
        if seconds < MIN_GAIN_RATIO * fastest:
            fastest, choice = seconds, config
    answers = translator.translate(texts, settings, split=False)
    translations = tuple(answer.text for answer in answers)
    return VariantTiming(
        choice,
        loading,
        len(texts) / fastest,
        sum(map(len, translator.target.encode(translations))) / fastest,
        1000 * median(latencies),
        peak_rss() / 2**20,
        translations,
    )


def _budgets(variant: EngineVariant, translator: Translator) -> list[int]:
    """The budgets to try, the engine's default first; on a GPU only the default."""
    if variant.device == "cuda":
        return [translator.budget]
    default = CPU_BUDGET if variant.engine == "native" else CT2_BUDGET
    return sorted(BUDGETS, key=lambda budget: budget != default)


def _time_stream(translator: Translator, texts: Sequence[str], settings: DecodingSettings) -> float:
    """The fewest seconds that the texts took, of several rounds."""
    began = time.perf_counter()
    seconds_taken: list[float] = []
    while len(seconds_taken) < ROUNDS and time.perf_counter() < began + MIN_SECONDS:
        seconds_taken.append(_timed(partial(translator.translate, texts, settings))[0])
    return min(seconds_taken)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """The seconds that `work()` takes, and its result."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found
