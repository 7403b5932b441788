"""Some real training steps on a sample -> time, memory and disk for the whole training."""

import gc
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch

from regard.batching.collate import PositionedBatch, collate, held_out_batches
from regard.batching.sampler import Shard, StreamPosition
from regard.corpora.corpus import Pair
from regard.corpora.pairs.build import CorpusSettings
from regard.corpora.readers.pair_files import FilesSettings
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.constraints.length_limits import TruncationReport
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import RunError
from regard.evaluation.perplexity import perplexity
from regard.models.contracts import AnyGenerator, AnyModel
from regard.recipes.memory import available_memory, format_bytes, peak_memory, reset_peak_memory
from regard.recipes.run_folder import RunFolder, count_parameters, describe_device
from regard.recipes.transfer.start_run import given_tokenizers
from regard.settings import SettingChoice
from regard.tasks.contracts import Notify
from regard.tasks.translation.batches import build_batches, build_buckets, build_loss
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.task import new_model
from regard.tasks.translation.training_inputs import TrainingInputs, prepare
from regard.tasks.translation.validation import VALIDATION_BATCH_TOKENS
from regard.text.special_tokens import UNK
from regard.text.word_units import count_units
from regard.training.checkpoints import list_checkpoints
from regard.training.loop import TrainingTask, fit

SAMPLE_PAIRS = 20_000  # training pairs of a dry run, at most
WARMUP_STEPS, MIN_TIMED_STEPS, MIN_TIMED_SECONDS, MAX_TIMED_SECONDS = 2, 5, 5.0, 60.0
MIN_BATCH_TOKENS = 64  # the smallest batch to try if larger ones do not fit
DECODED_SENTENCES = 100  # to time a validation
SOURCE_LENGTH_SEARCH = DecodingSettings(
    beam=BeamSettings(size=1), rules=RuleSettings(max_length_ratio=1.0, max_length_offset=1)
)
"""Translations as long as their sources: an untrained model never predicts EOS."""
NEVER = 1 << 60


class CorpusSizes(NamedTuple):
    """Pairs of the whole corpus, of which the dry run uses a sample."""

    train: int
    valid: int


class PerSide(NamedTuple):
    """A number for each side."""

    source: float
    target: float


class TextStats(NamedTuple):
    """Statistics of the tokens of the sample."""

    vocabulary: tuple[int, int]
    tokens_per_word: PerSide
    unknown: PerSide  # share of unknown tokens in the validation pairs
    too_long: float  # share of training pairs with more than `training.max_tokens` tokens


class StepStats(NamedTuple):
    """Measurements of some training steps and a validation."""

    parameters: int
    batch_tokens: int  # the largest that fits: the recipe's, or a half, a quarter … of it
    step_seconds: float
    tokens_per_second: float
    memory: int  # peak, in bytes
    checkpoint: int  # bytes of one
    validation_seconds: float = 0.0
    gathered: int = 0  # parameters that a device holds at once in sharded training


class RunSeconds(NamedTuple):
    """Estimated seconds of the parts of a run."""

    preparing: float
    training: float
    validating: float

    @property
    def total(self) -> float:
        return sum(self)


@dataclass(frozen=True)
class DryRun:
    """Measurements of a short training on this device, and estimates for the whole one."""

    recipe: TranslationRecipe  # with a value for every setting that was `auto`
    choices: tuple[SettingChoice, ...]  # the chosen values, and the reasons
    truncation: TruncationReport  # of targets that exceed the limits on the length of translations
    device: str
    load: float  # the machine's load average, the dry run counted as one thread
    pairs: int  # of the sample
    all_pairs: int  # of the whole training
    text: TextStats
    steps: StepStats
    epochs: float  # passes of the whole training over the corpus
    memory_available: int
    disk: int  # bytes that the run's folder will hold at most
    disk_free: int
    times: RunSeconds

    def to_json(self) -> dict[str, Any]:
        """All numbers, in one group."""
        numbers = {**vars(self), **self.text._asdict(), **self.steps._asdict()}
        for name in ("recipe", "choices", "truncation", "text", "steps", "validation_seconds"):
            del numbers[name]
        return {
            **numbers,
            "tokens_per_word": self.text.tokens_per_word._asdict(),
            "unknown": self.text.unknown._asdict(),
            "references_beyond_limit": self.truncation.references,
            "times": {**self.times._asdict(), "total": self.times.total},
        }


def dry_run_training(
    recipe: TranslationRecipe,
    sample: Sequence[Pair],
    sizes: CorpusSizes,
    *,
    device: torch.device,
    run: Path,
    notify: Notify,
) -> DryRun:
    """Train the recipe's model for some seconds on cleaned pairs, in a temporary folder.

    Estimates grow in proportion to `sizes`; free space is that of `run`, the folder of training.
    """
    load = os.getloadavg()[0]
    with TemporaryDirectory(prefix="regard-trial-") as temporary:
        folder = RunFolder(Path(temporary))
        small = _recipe_on_sample(recipe, sample, folder)
        began = time.perf_counter()
        inputs = prepare(
            small,
            folder.path,
            notify,
            device=device,
            given=given_tokenizers(small),
            all_pairs=sizes.train,
        )
        preparing = time.perf_counter() - began
        notify("trying some steps of training")
        text = _measure_text(inputs)
        text_bytes = sum(file.stat().st_size for file in inputs.data.folder.iterdir())
        steps = _measure_largest_batch(inputs, folder, device, sizes)
    load = max(load, os.getloadavg()[0] - torch.get_num_threads() + 1)
    settings, fitting = inputs.recipe.training, inputs.fitting
    scale = max(1.0, sizes.train / len(sample))
    validations = math.ceil(settings.steps / settings.validation.every)
    pairs_per_batch = len(fitting.rows) / len(fitting.length_sorted(steps.batch_tokens))
    # checkpoints, one more than are kept; weights: validated ones, model, best, last and average
    checkpoints = (settings.keep + 1) * steps.checkpoint
    weights = 4 * steps.parameters * (settings.average + 1 + 4)
    return DryRun(
        recipe=inputs.recipe.model_copy(update={"corpus": recipe.corpus}),
        choices=inputs.choices,
        truncation=inputs.truncation,
        device=describe_device(device),
        load=load,
        pairs=len(sample),
        all_pairs=sizes.train,
        text=text,
        steps=steps,
        epochs=settings.steps * settings.accumulate * pairs_per_batch / max(1, sizes.train),
        memory_available=available_memory(device),
        disk=round(scale * text_bytes) + checkpoints + weights,
        disk_free=_free_disk(run),
        times=RunSeconds(
            scale * preparing,
            settings.steps * steps.step_seconds,
            validations * steps.validation_seconds,
        ),
    )


def _measure_text(inputs: TrainingInputs) -> TextStats:
    store, pairs = inputs.valid, list(inputs.data.read("valid"))
    ids = [side.ids for side in store.take(np.arange(len(store)))]
    words = [sum(count_units(pair[side]) for pair in pairs) for side in (0, 1)]
    return TextStats(
        (inputs.tokenizers.source.size, inputs.tokenizers.target.size),
        PerSide(*(len(side) / max(1, count) for side, count in zip(ids, words, strict=True))),
        PerSide(*(float((side == UNK).sum() / max(1, len(side))) for side in ids)),
        inputs.num_too_long / len(inputs.train),
    )


class _SilentReporter:
    def noted(self, message: str) -> None: ...
    def logged(self, step: int, numbers: Mapping[str, float]) -> None: ...
    def validated(self, step: int, numbers: Mapping[str, float], *, best: bool) -> None: ...


class _Stopwatch:
    """The loop's `stop_requested`: notes the time after each step, and stops after enough."""

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
        """The median time of a step."""
        return float(np.median(np.diff(self.times[WARMUP_STEPS - 1 :])))


def _recipe_on_sample(
    recipe: TranslationRecipe, sample: Sequence[Pair], folder: RunFolder
) -> TranslationRecipe:
    """The recipe with the sample as its corpus."""
    source, target = (folder.path / f"{side}.txt" for side in ("source", "target"))
    for side, path in enumerate((source, target)):
        path.write_text("".join(f"{pair[side]}\n" for pair in sample), encoding="utf-8")
    files = FilesSettings(source=str(source), target=str(target))
    corpus = CorpusSettings(train=files, cleaning=recipe.corpus.cleaning)
    return recipe.model_copy(update={"corpus": corpus})


def _measure_largest_batch(
    inputs: TrainingInputs, folder: RunFolder, device: torch.device, sizes: CorpusSizes
) -> StepStats:
    """Measurements with the recipe's batch size, halved until a batch fits into memory."""
    budget = inputs.recipe.training.batch_tokens
    while budget >= min(MIN_BATCH_TOKENS, inputs.recipe.training.batch_tokens):
        recipe = inputs.recipe.with_values({"training.batch_tokens": budget})
        try:
            return _measure_steps(inputs._replace(recipe=recipe), folder, device, sizes)
        except (torch.OutOfMemoryError, MemoryError):
            pass
        except RuntimeError as error:  # torch's error on a CPU
            if "allocate memory" not in str(error):
                raise
        budget //= 2
        gc.collect()  # frees memory for the next attempt
    raise RunError(
        f"the model does not fit on {describe_device(device)}, which has "
        f"{format_bytes(available_memory(device))}, even with {2 * budget} tokens in a batch; "
        "choose a smaller model, or another --device"
    )


def _measure_steps(
    inputs: TrainingInputs, folder: RunFolder, device: torch.device, sizes: CorpusSizes
) -> StepStats:
    """Train for some steps and validate once."""
    reset_peak_memory(device)
    timed = time_steps(inputs, folder, device=device)
    validation_seconds = _validation_seconds(timed.model, inputs, sizes)
    return StepStats(
        parameters=count_parameters(timed.model),
        batch_tokens=inputs.recipe.training.batch_tokens,
        step_seconds=timed.seconds,
        tokens_per_second=timed.tokens_per_second,
        memory=peak_memory(device),
        checkpoint=list_checkpoints(folder.path / "checkpoints")[0].stat().st_size,
        validation_seconds=validation_seconds,
        gathered=_count_gathered(timed.model),
    )


def _count_gathered(model: AnyModel) -> int:
    """Parameters that a device holds at once in sharded training: all outside the sharded layers,
    and those of two of these layers, the current one and the next.
    """
    layers = [count_parameters(layer) for layer in model.sharded_layers()]
    return count_parameters(model) - sum(layers) + 2 * max(layers, default=0)


class TimedSteps(NamedTuple):
    """Measurements of some training steps."""

    model: AnyGenerator  # after these steps
    seconds: float  # of one: the median
    tokens_per_second: float  # target tokens, as the log of training counts them


def time_steps(inputs: TrainingInputs, folder: RunFolder, *, device: torch.device) -> TimedSteps:
    """Train for some seconds with the training loop, but not compiled; a checkpoint is left in
    `folder`. The longest batch comes first, so that a lack of memory is noticed at once.
    """
    recipe = inputs.recipe
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
    model = new_model(recipe, inputs.tokenizers).to(device)
    stopwatch, stream = _Stopwatch(device), build_batches(recipe, inputs, device)
    longest = collate(*inputs.train.take(inputs.fitting.length_sorted(settings.batch_tokens)[-1]))
    tokens: list[int] = []  # of each batch

    def batches(start: StreamPosition, shard: Shard) -> Iterator[PositionedBatch]:
        for item in chain([PositionedBatch(longest, start)], stream(start, shard)):
            tokens.append(item.batch.num_labels)
            yield item

    task = TrainingTask(
        batches, build_loss(settings), lambda model: {}, buckets=build_buckets(settings, model)
    )
    fit(
        model,
        task,
        settings,
        folder=folder.path,
        width=recipe.model.width,
        reporter=_SilentReporter(),
        stop_requested=stopwatch,
    )
    steps, each = len(stopwatch.times), settings.accumulate
    per_step = sum(tokens[WARMUP_STEPS * each : steps * each]) / (steps - WARMUP_STEPS)
    return TimedSteps(model, stopwatch.step(), per_step / stopwatch.step())


def _validation_seconds(model: AnyGenerator, inputs: TrainingInputs, sizes: CorpusSizes) -> float:
    """Estimated time of a validation: the loss on all validation pairs, and a search on some."""
    began = time.perf_counter()
    perplexity(model, held_out_batches(inputs.valid, budget=VALIDATION_BATCH_TOKENS))
    scored = time.perf_counter()
    texts = [pair.source for pair in inputs.data.read("valid")][:DECODED_SENTENCES]
    ids = inputs.tokenizers.source.encode(texts)
    model.eval()
    search_many([SearchMember(model, ids)], SOURCE_LENGTH_SEARCH, budget=VALIDATION_BATCH_TOKENS)
    decoded = time.perf_counter()
    sentences = min(inputs.recipe.training.validation.sentences, sizes.valid)
    loss_seconds = (scored - began) * sizes.valid / len(inputs.valid)
    return loss_seconds + (decoded - scored) * sentences / len(texts)


def _free_disk(path: Path) -> int:
    """Bytes free on the disk of a path that need not exist."""
    while not path.exists():
        path = path.parent
    return shutil.disk_usage(path).free
