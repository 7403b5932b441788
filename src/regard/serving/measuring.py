"""How fast a run translates here, by each engine and precision that it has.

What is imported here is part of what each engine is said to hold, so torch is not among it.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple, TypeVar

from regard.batching.apart import apart
from regard.decoding.settings import DecodingSettings
from regard.errors import RegardError, RunError, StorageError
from regard.recipes.own_memory import own_peak
from regard.serving import late
from regard.serving.exported import Precision
from regard.serving.measured import Choice, count_cores
from regard.serving.searching import for_all_engines, search_settings
from regard.serving.translator import Translator, load

T = TypeVar("T")

BUDGETS = (1024, 2048, 4096)
"""Positions at a time that are tried for a stream."""
CLEARLY = 0.95
"""What share of the time another budget than an engine's own must take at the most to be chosen:
differences below are chance."""
ENOUGH = 1.0
"""Seconds after which a stream has been timed for long enough."""
ROUNDS = 3
"""Times that a stream is timed at the most."""
ALONE = 20
"""Sentences that are translated one at a time."""
RECORDED = 3
"""Times after which a GPU has recorded their searches: it does so with the second."""


class Way(NamedTuple):
    """An engine, what its weights are kept in, and where it runs."""

    engine: Literal["native", "ctranslate2"]
    precision: Precision
    device: Literal["cpu", "cuda"] = "cpu"

    def __str__(self) -> str:
        return f"{self.engine} {self.precision}{'' if self.device == 'cpu' else ' GPU'}"

    @property
    def to_be_kept(self) -> bool:
        """Whether later translations may use it unasked: on a CPU, and the model's own or gated.

        On a GPU all is native, in batches as large as its memory: there is nothing to choose.
        """
        equal = self.engine == "ctranslate2" or self.precision == "float32"
        return equal and self.device == "cpu"


class Trial(NamedTuple):
    """What was measured of one way."""

    choice: Choice
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


class Missing(NamedTuple):
    """A way that could not be measured."""

    why: str
    passing: bool = False
    """Whether it may be there another time: the disk was full, or a process killed."""


ON_CPU = (Way("ctranslate2", "int8"), Way("ctranslate2", "float32"), Way("native", "int8"))
ON_GPU = (Way("native", "bfloat16", "cuda"), Way("native", "float32", "cuda"))
EXACT = Way("native", "float32")
"""To what it says the others are compared."""


def find_ways() -> list[Way]:
    """The ways that this machine may have, the most exact one last."""
    [gpu] = apart([_find_gpu], _gone)
    return [*ON_CPU, *(ON_GPU if gpu else ()), EXACT]


def _find_gpu() -> Iterator[bool]:
    """Whether there is a GPU, as `apart` wants it: torch, which knows, stays out of here."""
    yield late.native().has_gpu()


def measure_way(run: Path, way: Way, texts: Sequence[str], beam: int | None) -> Trial | Missing:
    """What a way takes, in a process of its own; or why this run or machine does not have it.

    All ways search alike, as all engines can. An export that is not there yet is made by another
    process before: torch, which makes it, would count as what CTranslate2 holds.
    """
    try:
        if way.engine == "ctranslate2":
            [_] = apart([partial(_prepare, run, way)], _gone)
        [found] = apart([partial(_measure, run, way, tuple(texts), beam)], _gone)
    except RegardError as error:
        return Missing(str(error), isinstance(error, (StorageError, _GoneError)))
    return found


class _GoneError(RunError):
    """A process that measured has ended before its time."""


def _gone(status: int) -> _GoneError:
    return _GoneError(
        f"its process ended with status {status}; was it killed, or the memory full? Try with "
        "fewer --sentences"
    )


def _prepare(run: Path, way: Way) -> Iterator[str]:
    """The one name of the engine that will be measured, once all that it needs is there."""
    yield load(run, device="cpu", engine=way.engine, precision=way.precision).engine_for()


def _measure(run: Path, way: Way, texts: Sequence[str], beam: int | None) -> Iterator[Trial]:
    """The one trial, as `apart` wants it."""
    opened = partial(load, run, device=way.device, engine=way.engine, precision=way.precision)
    own = opened().settings  # which reads all files once
    settings = for_all_engines(search_settings(own, beam=beam))
    loading, translator = _timed(opened)
    alone = [text for text in texts if text.strip()][:ALONE]
    for text in alone[:1] if way.device == "cpu" else RECORDED * alone:
        # libraries start, and a GPU records what it does
        translator.translate([text], settings, split=False)
    took = [_timed(partial(translator.translate, [text], settings))[0] for text in alone]
    best: tuple[float, Choice] | None = None
    for budget in _budgets(way, translator):
        choice = Choice(
            engine=way.engine, precision=way.precision, workers=count_cores(), budget=budget
        )
        seconds = _time_stream(opened(choice=choice), texts, settings)
        if best is None or seconds < CLEARLY * best[0]:
            best = seconds, choice
    assert best is not None
    said = tuple(answer.text for answer in translator.translate(texts, settings, split=False))
    tokens = sum(map(len, translator.target.encode(said)))
    yield Trial(
        best[1],
        loading,
        len(texts) / best[0],
        tokens / best[0],
        1000 * median(took),
        own_peak() / 2**20,
        said,
    )


def _budgets(way: Way, translator: Translator) -> list[int]:
    """Those to try, first what the engine takes by itself; on a GPU that alone."""
    if way.device == "cuda":
        return [late.native().own_budget([run.model for run in translator.runs])]
    own: int = late.native().CPU_BUDGET if way.engine == "native" else late.fast().BUDGET
    return sorted(BUDGETS, key=lambda one: one != own)


def _time_stream(translator: Translator, texts: Sequence[str], settings: DecodingSettings) -> float:
    """The least seconds that the texts took; tried again while there is time."""
    began = time.perf_counter()
    took: list[float] = []
    while len(took) < ROUNDS and time.perf_counter() < began + ENOUGH:
        took.append(_timed(partial(translator.translate, texts, settings))[0])
    return min(took)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds that some work takes, and what comes of it."""
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found
