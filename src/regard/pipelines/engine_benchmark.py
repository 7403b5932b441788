"""How fast a run translates here, by each engine and precision that it has.

What is imported here is part of what each engine is said to hold, so torch is not among it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple, TypeVar

from regard.batching.prefetch_worker import iterate_in_workers
from regard.decoding.settings import DecodingSettings, portable_settings, search_settings
from regard.engines.ctranslate2.export_artifact import Precision
from regard.engines.tuned_engine import CPU_BUDGET, CT2_BUDGET, EngineConfig, count_cores
from regard.errors import RegardError, RunError, StorageError
from regard.pipelines.translator import Translator, load
from regard.recipes.process_memory import peak_rss

T = TypeVar("T")

BUDGETS = (1024, 2048, 4096)
"""Positions at a time that are tried for a stream."""
MIN_GAIN_RATIO = 0.95
"""What share of the time another budget than an engine's own must take at the most to be chosen:
differences below are chance."""
MIN_SECONDS = 1.0
"""Seconds after which a stream has been timed for long enough."""
ROUNDS = 3
"""Times that a stream is timed at the most."""
LATENCY_SENTENCES = 20
"""Sentences that are translated one at a time."""
WARMUP_ROUNDS = 3
"""Times after which a GPU has recorded their searches: it does so with the second."""


class EngineVariant(NamedTuple):
    """An engine, what its weights are kept in, and where it runs."""

    engine: Literal["native", "ctranslate2"]
    precision: Precision
    device: Literal["cpu", "cuda"] = "cpu"

    def __str__(self) -> str:
        return f"{self.engine} {self.precision}{'' if self.device == 'cpu' else ' GPU'}"

    @property
    def may_be_default(self) -> bool:
        """Whether later translations may use it unasked: on a CPU, and the model's own or gated.

        On a GPU all is native, in batches as large as its memory: there is nothing to choose.
        """
        equal = self.engine == "ctranslate2" or self.precision == "float32"
        return equal and self.device == "cpu"


class VariantTiming(NamedTuple):
    """What was measured of one way."""

    choice: EngineConfig
    """The fastest of those that were tried for a stream."""
    loading: float
    """Seconds from the folder to a translator, where all that it needs has been imported."""
    sentences: float
    """Of a stream, a second."""
    tokens: float
    """Of the answers to it, a second."""
    milliseconds: float
    """For one sentence at a time, the median."""
    megabytes: float
    """That the whole process held at the most."""
    texts: tuple[str, ...]
    """What was said to the stream."""


class UnavailableVariant(NamedTuple):
    """A way that could not be measured."""

    why: str
    transient: bool = False
    """Whether it may be there another time: the disk was full, or a process killed."""


ON_CPU = (
    EngineVariant("ctranslate2", "int8"),
    EngineVariant("ctranslate2", "float32"),
    EngineVariant("native", "int8"),
)
ON_GPU = (EngineVariant("native", "bfloat16", "cuda"), EngineVariant("native", "float32", "cuda"))
REFERENCE_VARIANT = EngineVariant("native", "float32")
"""To what it says the others are compared."""


def list_variants() -> list[EngineVariant]:
    """The ways that this machine may have, the most exact one last."""
    [gpu] = iterate_in_workers([_find_gpu], _worker_died)
    return [*ON_CPU, *(ON_GPU if gpu else ()), REFERENCE_VARIANT]


def _find_gpu() -> Iterator[bool]:
    """Whether there is a GPU, as `apart` wants it: torch, which knows, stays out of here."""
    from regard.engines.native.native_engine import has_gpu

    yield has_gpu()


def time_variant(
    run: Path, variant: EngineVariant, texts: Sequence[str], beam: int | None
) -> VariantTiming | UnavailableVariant:
    """What a way takes, in a process of its own; or why this run or machine does not have it.

    All ways search alike, as all engines can. An export that is not there yet is made by another
    process before: torch, which makes it, would count as what CTranslate2 holds.
    """
    try:
        if variant.engine == "ctranslate2":
            [_] = iterate_in_workers([partial(_prepare_engine, run, variant)], _worker_died)
        [found] = iterate_in_workers(
            [partial(_measure, run, variant, tuple(texts), beam)], _worker_died
        )
    except RegardError as error:
        return UnavailableVariant(str(error), isinstance(error, (StorageError, _WorkerDiedError)))
    return found


class _WorkerDiedError(RunError):
    """A process that measured has ended before its time."""


def _worker_died(status: int) -> _WorkerDiedError:
    return _WorkerDiedError(
        f"its process ended with status {status}; was it killed, or the memory full? Try with "
        "fewer --sentences"
    )


def _prepare_engine(run: Path, variant: EngineVariant) -> Iterator[str]:
    """The one name of the engine that will be measured, once all that it needs is there."""
    yield load(run, device="cpu", engine=variant.engine, precision=variant.precision).engine_for()


def _measure(
    run: Path, variant: EngineVariant, texts: Sequence[str], beam: int | None
) -> Iterator[VariantTiming]:
    """The one trial, as `apart` wants it."""
    open_translator = partial(
        load, run, device=variant.device, engine=variant.engine, precision=variant.precision
    )
    own = open_translator().settings  # which reads all files once
    settings = portable_settings(search_settings(own, beam=beam))
    loading, translator = _timed(open_translator)
    latency_texts = [text for text in texts if text.strip()][:LATENCY_SENTENCES]
    for text in latency_texts[:1] if variant.device == "cpu" else WARMUP_ROUNDS * latency_texts:
        # libraries start, and a GPU records what it does
        translator.translate([text], settings, split=False)
    seconds_taken = [
        _timed(partial(translator.translate, [text], settings))[0] for text in latency_texts
    ]
    best: tuple[float, EngineConfig] | None = None
    for budget in _budgets(variant, translator):
        choice = EngineConfig(
            engine=variant.engine, precision=variant.precision, workers=count_cores(), budget=budget
        )
        seconds = _time_stream(open_translator(choice=choice), texts, settings)
        if best is None or seconds < MIN_GAIN_RATIO * best[0]:
            best = seconds, choice
    assert best is not None
    translations = tuple(
        answer.text for answer in translator.translate(texts, settings, split=False)
    )
    tokens = sum(map(len, translator.target.encode(translations)))
    yield VariantTiming(
        best[1],
        loading,
        len(texts) / best[0],
        tokens / best[0],
        1000 * median(seconds_taken),
        peak_rss() / 2**20,
        translations,
    )


def _budgets(variant: EngineVariant, translator: Translator) -> list[int]:
    """Those to try, first what the engine takes by itself; on a GPU that alone."""
    if variant.device == "cuda":
        return [translator.budget]
    default = CPU_BUDGET if variant.engine == "native" else CT2_BUDGET
    return sorted(BUDGETS, key=lambda budget: budget != default)


def _time_stream(translator: Translator, texts: Sequence[str], settings: DecodingSettings) -> float:
    """The least seconds that the texts took; tried again while there is time."""
    began = time.perf_counter()
    seconds_taken: list[float] = []
    while len(seconds_taken) < ROUNDS and time.perf_counter() < began + MIN_SECONDS:
        seconds_taken.append(_timed(partial(translator.translate, texts, settings))[0])
    return min(seconds_taken)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds that some work takes, and what comes of it."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found
