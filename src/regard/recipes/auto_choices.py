"""Values for settings that are `auto`, by facts about the training pairs and the machine.

`resolve_text` chooses before text is tokenized, `resolve_tokens` after that.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.corpora.cleaning.pair_filters import CHUNK
from regard.corpora.corpus import Pair
from regard.corpora.segmentation_statistics import SegmentationStatistics
from regard.decoding.constraints.length_limits import DEFAULT_LIMITS, LengthLimits, fit_limits
from regard.decoding.settings import BeamSettings
from regard.iterate import chunked
from regard.recipes.auto_settings import AUTO_INPUT, MODEL_SIZES, WARMUP_SETTING, SettingChoice
from regard.recipes.recipe import Recipe

CLOSED_MAX_WORDS, CLOSED_MIN_USES = 2000, 50
"""A language of at most 2,000 distinct words, each used 50 times on average, is closed: a model
need not handle words that are not in the corpus."""
MAX_COUNTED_WORDS = 50_000
"""Distinct words are counted up to this number."""
FULLY_SAMPLED_PAIRS = 20_000
"""Of the pairs after these, segmentation is measured on every second, then every third, and so
on."""


class Hardware(NamedTuple):
    """What a model is trained on."""

    gpu: bool
    cores: int

    def __str__(self) -> str:
        return "a GPU" if self.gpu else f"{self.cores} core{'s' if self.cores > 1 else ''}"


def training_hardware(device: torch.device) -> Hardware:
    """The hardware that training on `device` uses."""
    return Hardware(device.type != "cpu", torch.get_num_threads())


@dataclass(frozen=True)
class TextFacts:
    """Statistics of the training pairs as text."""

    pairs: int
    words: tuple[int, int]
    """Words of all sources and of all targets, split at spaces."""
    distinct_words: int
    """Of both sides together; at most `MAX_COUNTED_WORDS`."""
    segmentation: SegmentationStatistics = field(default_factory=SegmentationStatistics)
    """Measured on all pairs, or on a sample of a large corpus."""

    @property
    def closed(self) -> bool:
        """Whether the language has few words, each used often (`CLOSED_MAX_WORDS`)."""
        few = self.distinct_words <= CLOSED_MAX_WORDS
        return few and sum(self.words) >= CLOSED_MIN_USES * self.distinct_words

    def scaled_by(self, factor: float) -> "TextFacts":
        """The facts of a corpus `factor` times as large, of which this is a sample."""
        source, target = self.words
        return replace(
            self,
            pairs=round(factor * self.pairs),
            words=(round(factor * source), round(factor * target)),
        )


def collect_text_facts(pairs: Iterable[Pair]) -> TextFacts:
    """Statistics of training pairs, in one pass."""
    count, words, distinct, segmentation = 0, [0, 0], set[str](), SegmentationStatistics()
    for chunk in chunked(pairs, CHUNK):
        for pair in chunk[:: 1 + count // FULLY_SAMPLED_PAIRS]:
            segmentation.add(pair)
        count += len(chunk)
        for side in (0, 1):
            split = [pair[side].split() for pair in chunk]
            words[side] += sum(map(len, split))
            if len(distinct) < MAX_COUNTED_WORDS:
                distinct.update(*split)
    num_distinct = min(len(distinct), MAX_COUNTED_WORDS)
    return TextFacts(count, (words[0], words[1]), num_distinct, segmentation)


TokenCounts = NDArray[np.int32]


@dataclass(frozen=True)
class TokenFacts:
    """Statistics of the training pairs as text and tokens, and the hardware."""

    text: TextFacts
    source: TokenCounts
    """Tokens (N,) of the sources of training pairs that are short enough, without EOS."""
    target: TokenCounts
    machine: Hardware

    @property
    def positions(self) -> int:
        """Positions of one epoch, as `training.batch_tokens` counts them."""
        longer = np.maximum(self.source, self.target).astype(np.int64) + 1
        return int(longer.sum() * (self.text.pairs / max(1, len(longer))))


class Resolved(NamedTuple):
    """A recipe with fewer settings that are `auto`, and the choices made."""

    recipe: Recipe
    choices: tuple[SettingChoice, ...]


def resolve_text(recipe: Recipe, facts: TextFacts) -> Resolved:
    """The recipe with values for settings of segmentation and vocabulary that are `auto`."""
    return _apply(recipe, [*_choose_vocabulary(facts), *_choose_input(facts)])


def resolve_tokens(recipe: Recipe, facts: TokenFacts) -> Resolved:
    """The recipe with values for all other settings that are `auto`.

    Each function sees the values that those before it have chosen.
    """
    choices: list[SettingChoice] = []
    for choose in (
        _choose_model_size,
        _choose_steps,
        _choose_schedule,
        _choose_validation,
        _choose_beam,
        _choose_length_limits,
    ):
        recipe, chosen = _apply(recipe, choose(recipe, facts))
        choices += chosen
    return Resolved(recipe, tuple(choices))


def _apply(recipe: Recipe, choices: Iterable[SettingChoice]) -> Resolved:
    used = tuple(choice for choice in choices if choice.setting in recipe.auto)
    return Resolved(recipe.with_choices(used), used)


def _choose_vocabulary(facts: TextFacts) -> Iterator[SettingChoice]:
    if facts.closed:
        reason = f"all {facts.distinct_words:,} words of the corpus become pieces of their own"
        yield SettingChoice("text.source.size", 8000, reason)
        return
    size = round(2000 * math.sqrt(facts.pairs / 5000), -3)
    size = int(min(32_000, max(1000, size)))
    yield SettingChoice(
        "text.source.size", size, f"{facts.pairs:,} pairs teach about so many pieces well"
    )


class _ModelSize(NamedTuple):
    layers: int
    width: int
    heads: int
    feed_forward: int


CLOSED_SIZE, TINY_SIZE = _ModelSize(2, 128, 8, 512), _ModelSize(3, 128, 4, 512)
SMALL_SIZE, BASE_SIZE = _ModelSize(3, 256, 4, 1024), _ModelSize(6, 512, 8, 2048)


CLOSED_PAIRS_WITHOUT_DROPOUT = 10_000
"""From this many pairs on, a model of a closed language does not overfit and has no dropout."""


def _choose_model_size(recipe: Recipe, facts: TokenFacts) -> Iterator[SettingChoice]:
    pairs = facts.text.pairs
    dropout = 0.3 if pairs < 50_000 else 0.2 if pairs < 500_000 else 0.1
    if facts.text.closed:
        size, dropout = CLOSED_SIZE, 0.1 if pairs < CLOSED_PAIRS_WITHOUT_DROPOUT else 0.0
        reason = f"a language of {facts.text.distinct_words:,} words needs no more"
    elif pairs < 10_000:
        size, reason = TINY_SIZE, f"a larger model would learn {pairs:,} pairs by heart"
    elif facts.machine.gpu and pairs >= 200_000:
        size, reason = BASE_SIZE, f"{pairs:,} pairs on a GPU can teach the base model"
    else:
        size, reason = SMALL_SIZE, f"for {pairs:,} pairs on {facts.machine}"
    heads = size.heads if "model.width" in recipe.auto else _heads_for_width(recipe.model.width)
    values = (size.layers, size.layers, size.width, heads, size.feed_forward)
    for name, value in zip(MODEL_SIZES, values, strict=True):
        yield SettingChoice(f"model.{name}", value, reason)
    yield SettingChoice("model.dropout", dropout, reason)


def _heads_for_width(width: int) -> int:
    """The most heads, up to 8, of width 32 or more that divide the width."""
    return next((heads for heads in (8, 4, 2) if width % heads == 0 and width >= 32 * heads), 1)


MAX_CPU_STEPS = 20_000
"""On a CPU; a GPU takes up to twice as many, of batches twice as large."""
EPOCHS, CLOSED_EPOCHS = 40, 30
"""Epochs of training, unless they exceed the maximum of steps; early stopping may end it sooner."""
MIN_STEPS = 1000


def _choose_steps(recipe: Recipe, facts: TokenFacts) -> Iterator[SettingChoice]:
    settings, positions, auto = recipe.training, facts.positions, recipe.auto
    batch = 1024 if positions < 200_000 else 2048 if positions < 1_000_000 else 4096
    if facts.machine.gpu and positions >= 4_000_000:
        batch = 8192
    if "training.batch_tokens" not in auto:
        batch = settings.batch_tokens
    steps_per_epoch = max(1.0, positions / (batch * settings.accumulate))
    max_steps = MAX_CPU_STEPS * (2 if facts.machine.gpu else 1)
    epochs = CLOSED_EPOCHS if facts.text.closed else EPOCHS
    steps = _round_to_two_digits(min(max_steps, max(MIN_STEPS, epochs * steps_per_epoch)))
    if "training.steps" not in auto:
        steps = settings.steps
    passes = f"{steps / steps_per_epoch:,.0f} passes over {facts.text.pairs:,} pairs"
    reason = f"{passes}, or fewer if it stops learning"
    yield SettingChoice("training.steps", steps, reason)
    yield SettingChoice("training.batch_tokens", batch, reason)


def _choose_schedule(recipe: Recipe, facts: TokenFacts) -> Iterator[SettingChoice]:
    steps, width = recipe.training.steps, recipe.model.width
    reason = f"for a width of {width} and {steps:,} steps"
    rate = 1e-3 if facts.text.closed else 2e-3 if width <= 256 else 7e-4
    yield SettingChoice("training.optimizer.learning_rate", rate, reason)
    yield SettingChoice(
        WARMUP_SETTING, max(1, min(1000 if width <= 256 else 4000, steps // 10)), reason
    )
    right = "one answer alone is right" if facts.text.closed else "several answers may be right"
    yield SettingChoice("training.label_smoothing", 0.0 if facts.text.closed else 0.1, right)


PATIENCE = 8


def _choose_validation(recipe: Recipe, facts: TokenFacts) -> Iterator[SettingChoice]:
    every = _round_to_two_digits(max(1.0, min(1000.0, recipe.training.steps / 20)))
    if "training.validation.every" not in recipe.auto:
        every = recipe.training.validation.every
    reason = f"stop after {PATIENCE * every:,} steps without a better score"
    yield SettingChoice("training.validation.every", every, reason)
    yield SettingChoice("training.validation.patience", PATIENCE, reason)
    yield SettingChoice("training.save_every", min(500, every), "")


def _choose_beam(recipe: Recipe, facts: TokenFacts) -> Iterator[SettingChoice]:
    """The beam size.

    A model of a closed language is nearly certain of every token, so that a beam finds nothing
    better. One that stops when enough hypotheses have finished is worse: the short ones finish
    first.
    """
    if facts.text.closed:
        yield SettingChoice("decoding.beam.size", 1, "one answer alone is right")
    else:
        yield SettingChoice("decoding.beam.size", BeamSettings().size, "")


def _choose_length_limits(recipe: Recipe, facts: TokenFacts) -> Iterator[SettingChoice]:
    """Limits on the length of translations, well above the lengths of the training targets."""
    group = "decoding.rules"
    given = {
        name: getattr(recipe.decoding.rules, name)
        for name in LengthLimits._fields
        if f"{group}.{name}" not in recipe.auto
    }
    limits = fit_limits(facts.source, facts.target, given)
    longest = int(facts.target.max(initial=0))
    ratio = facts.target.sum() / max(1, facts.source.sum())
    reason = (
        f"training targets have up to {longest:,} tokens, {ratio:.1f} for each token of the source"
        if limits != DEFAULT_LIMITS
        else ""
    )
    for name, value in limits._asdict().items():
        yield SettingChoice(f"{group}.{name}", value, reason)


def _round_to_two_digits(number: float) -> int:
    """The number rounded to two significant digits, at least 1."""
    number = max(1.0, number)
    digits = max(0, math.floor(math.log10(number)) - 1)
    return int(round(number, -digits))


def _choose_input(facts: TextFacts) -> Iterator[SettingChoice]:
    settings, reason = facts.segmentation.settings(), str(facts.segmentation)
    yield SettingChoice(AUTO_INPUT[0], settings.split_sentences, reason)
    yield SettingChoice(AUTO_INPUT[1], settings.pass_through, reason)
