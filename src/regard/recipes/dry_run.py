"""A few real steps of training on a sample -> what all of it will take, here."""

import gc
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.batching.batch_sampler import length_sorted_batches
from regard.batching.collate import collate
from regard.batching.prefetch import PositionedBatch, held_out_batches
from regard.batching.sampler import within_max_tokens
from regard.corpora.build import CorpusSettings
from regard.corpora.corpus import Pair
from regard.corpora.readers.pair_files import FilesSettings
from regard.corpora.token_store import TokenStore
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.constraints.length_limits import TruncationReport
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import RunError
from regard.evaluation.perplexity import perplexity
from regard.models.contracts import AnyModel
from regard.recipes.auto_settings import SettingChoice
from regard.recipes.memory import available_memory, format_bytes, peak_memory, reset_peak_memory
from regard.recipes.recipe import Recipe
from regard.recipes.run_folder import RunFolder, new_model
from regard.recipes.train_run import (
    VALIDATION_BATCH_TOKENS,
    TrainingInputs,
    build_batches,
    build_loss,
    prepare,
)
from regard.text.special_tokens import UNK
from regard.text.word_units import count_units
from regard.training.checkpoints import list_checkpoints
from regard.training.loop import TrainingSettings, TrainingTask, fit
from regard.types import Batch

SAMPLE_PAIRS = 20_000
"""Training pairs that are enough for a trial."""
WARMUP_STEPS, MIN_TIMED_STEPS, MIN_TIMED_SECONDS, MAX_TIMED_SECONDS = 2, 5, 5.0, 60.0
"""Steps that are not timed; then so many are and for so long at least, and at most."""
MIN_BATCH_TOKENS = 64
"""The smallest batch that is tried where larger ones do not fit."""
DECODED_SENTENCES = 100
"""Sentences decoded to time a validation."""
SOURCE_LENGTH_SEARCH = DecodingSettings(
    beam=BeamSettings(size=1), rules=RuleSettings(max_length_ratio=1.0, max_length_offset=1)
)
"""Answers as long as their source: those of a model that has learned nothing never end."""
NEVER = 1 << 60
NOT_IN_JSON = ("recipe", "choices", "cut")

Notify = Callable[[str], None]
"""Is told what is being done."""


class CorpusSizes(NamedTuple):
    """Pairs of the whole corpus, of which the trial sees a sample."""

    train: int
    valid: int


class PerSide(NamedTuple):
    """A number for each side."""

    source: float
    target: float


class RunSeconds(NamedTuple):
    """Seconds that parts of a run will take."""

    preparing: float
    training: float
    validating: float

    @property
    def total(self) -> float:
        return sum(self)


@dataclass(frozen=True)
class DryRun:
    """What training a recipe on this device was seen to take, and what all of it would."""

    recipe: Recipe
    """What was tried, with a value wherever the one that was given said `auto`."""
    choices: tuple[SettingChoice, ...]
    """Those values, and why."""
    cut: TruncationReport
    """What the limits on answers would cost perfect answers to the sample."""
    device: str
    load: float
    """Processes that wanted a core while the corpus was examined; 1 of them was ours."""
    pairs: int
    """Of the sample."""
    all_pairs: int
    """That training would get."""
    vocabulary: tuple[int, int]
    tokens_per_word: PerSide
    unknown: PerSide
    """Share of unknown tokens on validation pairs."""
    too_long: float
    """Share of training pairs with more than `training.max_tokens` tokens."""
    parameters: int
    batch_tokens: int
    """The largest batch that fits, of what the recipe asks and its halves."""
    step_seconds: float
    tokens_per_second: float
    epochs: float
    """How often all steps together go through the corpus."""
    memory: int
    """Bytes taken at the most."""
    memory_available: int
    checkpoint: int
    """Bytes of one."""
    disk: int
    """Bytes that the run's folder will take at the most."""
    disk_free: int
    times: RunSeconds

    def to_json(self) -> dict[str, Any]:
        """The numbers, as JSON can hold them."""
        return {
            **{name: one for name, one in asdict(self).items() if name not in NOT_IN_JSON},
            **{name: getattr(self, name)._asdict() for name in ("tokens_per_word", "unknown")},
            "references_beyond_limit": self.cut.references,
            "times": {**self.times._asdict(), "total": self.times.total},
        }


def dry_run_training(
    recipe: Recipe,
    sample: Sequence[Pair],
    sizes: CorpusSizes,
    *,
    device: torch.device,
    place: Path,
    notify: Notify,
) -> DryRun:
    """Train the recipe's model for some seconds on `sample`, cleaned pairs, in a temporary folder.

    All that is scaled to `sizes` is taken to grow with the pairs. `place` is on the disk that the
    run would be written to.
    """
    load = os.getloadavg()[0]
    with TemporaryDirectory(prefix="regard-trial-") as temporary:
        folder = RunFolder(Path(temporary))
        small = _recipe_on_sample(recipe, sample, folder)
        began = time.perf_counter()
        prepared = prepare(
            small, folder, _NoteReporter(notify), device=device, all_pairs=sizes.train
        )
        small = prepared.recipe
        preparing = time.perf_counter() - began
        notify("trying some steps of training")
        text = _measure_text(prepared)
        steps = _measure_largest_batch(small, prepared, folder, device, sizes)
    settings = small.training
    scale = max(1.0, sizes.train / len(sample))
    validations = math.ceil(settings.steps / settings.validation.every)
    seen = settings.steps * settings.accumulate * steps.pairs_per_batch
    return DryRun(
        recipe=small.model_copy(update={"corpus": recipe.corpus}),
        choices=prepared.choices,
        cut=prepared.cut,
        device=describe_device(device),
        load=load,
        pairs=len(sample),
        all_pairs=sizes.train,
        vocabulary=text.vocabulary,
        tokens_per_word=text.tokens_per_word,
        unknown=text.unknown,
        too_long=text.too_long,
        parameters=steps.parameters,
        batch_tokens=steps.batch_tokens,
        step_seconds=steps.seconds,
        tokens_per_second=steps.tokens_per_second,
        epochs=seen / max(1, sizes.train),
        memory=steps.memory,
        memory_available=available_memory(device),
        checkpoint=steps.checkpoint,
        disk=round(scale * text.written) + _weights_on_disk(steps, settings),
        disk_free=_free_disk(place),
        times=RunSeconds(
            scale * preparing,
            settings.steps * steps.seconds,
            validations * steps.validation_seconds,
        ),
    )


class _TextStats(NamedTuple):
    """What the tokens of the sample are like."""

    vocabulary: tuple[int, int]
    tokens_per_word: PerSide
    unknown: PerSide
    too_long: float
    written: int
    """Bytes of texts and tokens on disk."""


def _measure_text(prepared: TrainingInputs) -> _TextStats:
    source, target = prepared.tokenizers
    store = prepared.valid
    pairs = list(prepared.data.read("valid"))
    ids = [side.ids for side in store.take(np.arange(len(store)))]
    words = [sum(count_units(pair[place]) for pair in pairs) for place in (0, 1)]
    return _TextStats(
        (source.size, target.size),
        PerSide(*(len(some) / max(1, count) for some, count in zip(ids, words, strict=True))),
        PerSide(*(float((some == UNK).sum() / max(1, len(some))) for some in ids)),
        prepared.too_long / len(prepared.train),
        sum(file.stat().st_size for file in prepared.data.folder.iterdir()),
    )


class _StepStats(NamedTuple):
    """What some steps took."""

    parameters: int
    batch_tokens: int
    seconds: float
    """Of one."""
    tokens_per_second: float
    pairs_per_batch: float
    validation_seconds: float
    memory: int
    checkpoint: int


class _NoteReporter:
    """Passes on what is being done, and nothing else."""

    def __init__(self, noted: Notify) -> None:
        self.noted = noted

    def logged(self, step: int, numbers: Mapping[str, float]) -> None: ...
    def validated(self, step: int, numbers: Mapping[str, float], *, best: bool) -> None: ...


class _Stopwatch:
    """Is asked after each step whether to stop; notes when that was."""

    def __init__(self, device: torch.device) -> None:
        self.times: list[float] = []
        self._device = device

    def __call__(self) -> bool:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self.times.append(time.perf_counter())
        timed = len(self.times) - WARMUP_STEPS
        return timed > 0 and (
            (timed >= MIN_TIMED_STEPS and self.seconds() >= MIN_TIMED_SECONDS)
            or self.seconds() > MAX_TIMED_SECONDS
        )

    def seconds(self) -> float:
        """From the end of the warm-up to the last step."""
        return self.times[-1] - self.times[WARMUP_STEPS - 1]

    def step(self) -> float:
        """The median time of a step: what else the machine does for a moment does not count."""
        return float(np.median(np.diff(self.times[WARMUP_STEPS - 1 :])))


def _recipe_on_sample(recipe: Recipe, sample: Sequence[Pair], folder: RunFolder) -> Recipe:
    """The recipe, on files that hold the sample alone."""
    files = FilesSettings(
        source=str(folder.path / "source.txt"), target=str(folder.path / "target.txt")
    )
    for name, place in ((files.source, 0), (files.target, 1)):
        lines = "".join(f"{pair[place]}\n" for pair in sample)
        Path(str(name)).write_text(lines, encoding="utf-8")
    corpus = CorpusSettings(train=files, cleaning=recipe.corpus.cleaning)
    return recipe.model_copy(update={"corpus": corpus})


def _measure_largest_batch(
    recipe: Recipe,
    prepared: TrainingInputs,
    folder: RunFolder,
    device: torch.device,
    sizes: CorpusSizes,
) -> _StepStats:
    """The measurements with the recipe's batches, or with the largest halves of them that fit."""
    budget = recipe.training.batch_tokens
    while budget >= min(MIN_BATCH_TOKENS, recipe.training.batch_tokens):
        try:
            return _measure_steps(recipe, prepared, folder, device, sizes, budget)
        except (torch.OutOfMemoryError, MemoryError):
            pass
        except RuntimeError as error:  # which is what torch raises on a CPU
            if "allocate memory" not in str(error):
                raise
        budget //= 2
        gc.collect()  # what is freed now is there for the next attempt
    raise RunError(
        f"the model does not fit on {describe_device(device)}, which has "
        f"{format_bytes(available_memory(device))}, even with {2 * budget} tokens in a batch; "
        "choose a smaller model, or another --device"
    )


def _measure_steps(
    recipe: Recipe,
    prepared: TrainingInputs,
    folder: RunFolder,
    device: torch.device,
    sizes: CorpusSizes,
    budget: int,
) -> _StepStats:
    """Train for some steps and validate once."""
    reset_peak_memory(device)
    training = recipe.training.model_copy(update={"batch_tokens": budget})
    timed = time_steps(
        recipe.model_copy(update={"training": training}), prepared, folder, device=device
    )
    checkpoint = list_checkpoints(folder.path / "checkpoints")[0]
    return _StepStats(
        parameters=sum(p.numel() for p in timed.model.parameters()),
        batch_tokens=budget,
        seconds=timed.seconds,
        tokens_per_second=timed.tokens_per_second,
        pairs_per_batch=_batch_stats(prepared.train, training).pairs_per_batch,
        validation_seconds=_validation_seconds(timed.model, recipe, prepared, sizes),
        memory=peak_memory(device),
        checkpoint=checkpoint.stat().st_size,
    )


class TimedSteps(NamedTuple):
    """What some steps of training took."""

    model: AnyModel
    """As they left it."""
    seconds: float
    """Of one: the median."""
    tokens_per_second: float
    """Target tokens, as the log of a training counts them."""


def time_steps(
    recipe: Recipe, prepared: TrainingInputs, folder: RunFolder, *, device: torch.device
) -> TimedSteps:
    """Some seconds of the recipe's training, by the training loop itself but not compiled.

    `folder` is one to be thrown away: a checkpoint is left in it. The batch with the longest pairs
    comes first, so that what does not fit fails now.
    """
    settings = recipe.training.model_copy(
        update={
            "steps": NEVER,
            "compile": False,
            "log_every": NEVER,
            "save_every": NEVER,
            "validation": recipe.training.validation.model_copy(update={"every": NEVER}),
        }
    )
    torch.manual_seed(settings.seed)
    model = new_model(recipe, prepared.tokenizers).to(device)
    stopwatch, longest = _Stopwatch(device), _batch_stats(prepared.train, settings).longest
    stream = build_batches(recipe, prepared, settings, device)
    tokens: list[int] = []
    task = TrainingTask(
        lambda start: _count_tokens(
            chain([PositionedBatch(longest, start)], stream(start)), tokens
        ),
        build_loss(settings),
        lambda model: {},
    )
    fit(
        model,
        task,
        settings,
        folder=folder.path,
        width=recipe.model.width,
        reporter=_NoteReporter(lambda message: None),
        stop_requested=stopwatch,
    )
    steps, batches = len(stopwatch.times), settings.accumulate
    learned = sum(tokens[WARMUP_STEPS * batches : steps * batches]) / (steps - WARMUP_STEPS)
    return TimedSteps(model, stopwatch.step(), learned / stopwatch.step())


class _BatchStats(NamedTuple):
    """How pairs fall into batches."""

    longest: Batch
    """The one with the longest pairs, which takes the most memory."""
    pairs_per_batch: float


def _batch_stats(store: TokenStore, settings: TrainingSettings) -> _BatchStats:
    lengths = store.lengths()
    fitting = np.flatnonzero(within_max_tokens(lengths, settings.max_tokens))
    source, target = lengths.source[fitting] + 1, lengths.target[fitting] + 1  # with EOS or BOS
    plan = length_sorted_batches(source, target, budget=settings.batch_tokens)
    longest = collate(*store.take(fitting[plan[-1]]))
    return _BatchStats(longest, len(fitting) / len(plan))


def _count_tokens(
    stream: Iterable[PositionedBatch], tokens: list[int]
) -> Iterator[PositionedBatch]:
    """The same batches, whose numbers of tokens are noted."""
    for placed in stream:
        tokens.append(placed.batch.num_tokens)
        yield placed


def _validation_seconds(
    model: AnyModel, recipe: Recipe, prepared: TrainingInputs, sizes: CorpusSizes
) -> float:
    """How long a validation takes: the loss on all held-out pairs, and the search on some."""
    began = time.perf_counter()
    perplexity(model, held_out_batches(prepared.valid, budget=VALIDATION_BATCH_TOKENS))
    scored = time.perf_counter()
    texts = [pair.source for pair in prepared.data.read("valid")][:DECODED_SENTENCES]
    ids = prepared.tokenizers.source.encode(texts)
    model.eval()
    search_many([SearchMember(model, ids)], SOURCE_LENGTH_SEARCH, budget=VALIDATION_BATCH_TOKENS)
    decoded = time.perf_counter()
    sentences = min(recipe.training.validation.sentences, sizes.valid)
    return (scored - began) * sizes.valid / len(prepared.valid) + (
        decoded - scored
    ) * sentences / len(texts)


def _weights_on_disk(steps: _StepStats, settings: TrainingSettings) -> int:
    """Bytes of checkpoints, one more than are kept, and of weights: kept, and four that are named.

    The named ones are the model's, the best, the last and the average.
    """
    weights = 4 * steps.parameters * (settings.average + 1 + 4)
    return (settings.keep + 1) * steps.checkpoint + weights


def _free_disk(place: Path) -> int:
    """Bytes free where `place` is, or would be."""
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def describe_device(device: torch.device) -> str:
    """What computes: the name of a GPU, or how many threads of a processor."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{device.type}, {threads} thread{'s' if threads > 1 else ''}"
