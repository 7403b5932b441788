"""Values for settings that are `auto`, chosen from statistics of the training pairs and the
hardware: by `resolve_text` before text is tokenized, by `resolve_tokens` after that.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from regard.corpora.cleaning.pair_filters import CHUNK
from regard.corpora.corpus import UNDETERMINED, Pair
from regard.corpora.languages import NO_LANGUAGE, shortest_code
from regard.corpora.segmentation_statistics import SegmentationStatistics
from regard.decoding.constraints.length_limits import DEFAULT_LIMITS, LengthLimits, fit_limits
from regard.decoding.settings import BeamSettings
from regard.iterate import chunked
from regard.settings import SettingChoice, counted, format_times
from regard.tasks.translation.auto_settings import (
    PATIENCE_SETTING,
    WARMUP_SETTING,
    ModelSize,
)
from regard.tasks.translation.recipe import TranslationRecipe

CLOSED_MAX_WORDS, CLOSED_MIN_USES = 2000, 50
"""A closed language has few words, each used often; its model need not handle other words."""
MAX_COUNTED_WORDS = 50_000  # distinct words are counted up to this number
FULLY_SAMPLED_PAIRS = 20_000  # after these, every second pair is measured, then every third, …
CLOSED_SIZE = ModelSize(2, 2, width=128, heads=8, feed_forward=512)  # for a closed language
TINY_SIZE = ModelSize(3, 3, width=128, heads=4, feed_forward=512)
SMALL_SIZE = ModelSize(3, 3, width=256, heads=4, feed_forward=1024)
BASE_SIZE = ModelSize(6, 6, width=512, heads=8, feed_forward=2048)
CLOSED_PAIRS_WITHOUT_DROPOUT = 10_000  # from here on, a model of a closed language does not overfit
MIN_STEPS, MAX_CPU_STEPS = 1000, 20_000  # a GPU takes up to twice as many, of larger batches
EPOCHS, CLOSED_EPOCHS = 40, 30  # of training, within the maximum of steps; it may stop early
PATIENCE = 8

Chosen = Iterator[tuple[dict[str, Any], str]]  # values by the names of their settings, and why
FactsT = TypeVar("FactsT")


class Hardware(NamedTuple):
    """The hardware that a model is trained on."""

    gpu: bool
    cores: int

    def __str__(self) -> str:
        return "a GPU" if self.gpu else f"{self.cores} core{'s' if self.cores > 1 else ''}"


@dataclass(frozen=True)
class TextFacts:
    """Statistics of the training pairs as text."""

    pairs: int
    words: tuple[int, int]  # words of all sources and of all targets, split at spaces
    distinct_words: int  # of both sides together; at most `MAX_COUNTED_WORDS`
    segmentation: SegmentationStatistics = field(default_factory=SegmentationStatistics)
    """Measured on all pairs, or on a sample of a large corpus."""
    language: str | None = None  # that of the sources, if it is known

    @property
    def closed(self) -> bool:
        """Whether the language has few words, each used often (`CLOSED_MAX_WORDS`)."""
        few = self.distinct_words <= CLOSED_MAX_WORDS
        return few and sum(self.words) >= CLOSED_MIN_USES * self.distinct_words

    def scaled_by(self, factor: float) -> "TextFacts":
        """The facts of a corpus that is `factor` times as large as this sample of it."""
        source, target = (round(factor * words) for words in self.words)
        return replace(self, pairs=round(factor * self.pairs), words=(source, target))


def collect_text_facts(pairs: Iterable[Pair], language: str = UNDETERMINED) -> TextFacts:
    """Statistics of training pairs, in one pass; `language` is that of the sources."""
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
    code = shortest_code(language)
    known = None if code in NO_LANGUAGE else code
    return TextFacts(count, (words[0], words[1]), num_distinct, segmentation, known)


@dataclass(frozen=True)
class TokenFacts:
    """Statistics of the training pairs as text and tokens, and the hardware."""

    text: TextFacts
    source: NDArray[np.int32]  # tokens (N,) of sources of pairs that are short enough, without EOS
    target: NDArray[np.int32]
    machine: Hardware

    @property
    def positions(self) -> int:
        """Positions of one epoch, as `training.batch_tokens` counts them."""
        longer = np.maximum(self.source, self.target).astype(np.int64) + 1
        return int(longer.sum() * (self.text.pairs / max(1, len(longer))))


def resolve_text(
    recipe: TranslationRecipe, facts: TextFacts
) -> tuple[TranslationRecipe, list[SettingChoice]]:
    """The recipe with values for settings of segmentation and vocabulary that are `auto`."""
    return _resolve(recipe, facts, (_choose_vocabulary, _choose_input))


def resolve_tokens(
    recipe: TranslationRecipe, facts: TokenFacts
) -> tuple[TranslationRecipe, list[SettingChoice]]:
    """The recipe with values for all other settings that are `auto`."""
    choosers = _choose_model_size, _choose_steps, _choose_schedule, _choose_validation
    return _resolve(recipe, facts, (*choosers, _choose_beam, _choose_length_limits))


def _resolve(
    recipe: TranslationRecipe,
    facts: FactsT,
    choosers: Iterable[Callable[[TranslationRecipe, FactsT], Chosen]],
) -> tuple[TranslationRecipe, list[SettingChoice]]:
    """The recipe with all chosen values, and the choices. Each function in turn sees the values
    chosen before it.
    """
    choices: list[SettingChoice] = []
    for choose in choosers:
        choices += (
            SettingChoice(name, value, reason)
            for values, reason in choose(recipe, facts)
            for name, value in values.items()
            if name in recipe.auto
        )
        recipe = recipe.with_choices(choices)
    return recipe, choices


def _choose_vocabulary(recipe: TranslationRecipe, facts: TextFacts) -> Chosen:
    if facts.closed:
        reason = f"each of the {facts.distinct_words:,} words of the corpus becomes a piece"
        yield {"text.source.size": 8000}, reason
        return
    size = int(min(32_000, max(1000, round(2000 * math.sqrt(facts.pairs / 5000), -3))))
    yield {"text.source.size": size}, f"{facts.pairs:,} pairs suffice for about this many pieces"


def _choose_input(recipe: TranslationRecipe, facts: TextFacts) -> Chosen:
    settings = facts.segmentation.settings()
    chosen = settings.model_dump(exclude={"language"})
    yield {f"input.{name}": value for name, value in chosen.items()}, str(facts.segmentation)
    yield {"input.language": facts.language}, "whose rules split lines" if facts.language else ""


def _choose_model_size(recipe: TranslationRecipe, facts: TokenFacts) -> Chosen:
    pairs = facts.text.pairs
    dropout = 0.3 if pairs < 50_000 else 0.2 if pairs < 500_000 else 0.1
    if facts.text.closed:
        sizes, dropout = CLOSED_SIZE, 0.1 if pairs < CLOSED_PAIRS_WITHOUT_DROPOUT else 0.0
        reason = f"a language of {facts.text.distinct_words:,} words needs no more"
    elif pairs < 10_000:
        sizes, reason = TINY_SIZE, f"a larger model would memorise {pairs:,} pairs"
    elif facts.machine.gpu and pairs >= 200_000:
        sizes, reason = BASE_SIZE, f"{pairs:,} pairs on a GPU suffice to train the base model"
    else:
        sizes, reason = SMALL_SIZE, f"for {pairs:,} pairs on {facts.machine}"
    values = {f"model.{name}": value for name, value in sizes._asdict().items()}
    values["model.dropout"] = dropout
    if "model.width" not in recipe.auto:
        values["model.heads"] = _heads_for_width(recipe.model.width)
    yield values, reason


def _heads_for_width(width: int) -> int:
    """The most heads, up to 8, of width 32 or more that divide the width."""
    return next((heads for heads in (8, 4, 2) if width % heads == 0 and width >= 32 * heads), 1)


def _choose_steps(recipe: TranslationRecipe, facts: TokenFacts) -> Chosen:
    settings, positions = recipe.training, facts.positions
    batch = 1024 if positions < 200_000 else 2048 if positions < 1_000_000 else 4096
    if facts.machine.gpu and positions >= 4_000_000:
        batch = 8192
    if "training.batch_tokens" not in recipe.auto:
        batch = settings.batch_tokens
    steps_per_epoch = max(1.0, positions / (batch * settings.accumulate))
    max_steps = MAX_CPU_STEPS * (2 if facts.machine.gpu else 1)
    epochs = CLOSED_EPOCHS if facts.text.closed else EPOCHS
    steps = _round_to_two_digits(min(max_steps, max(MIN_STEPS, epochs * steps_per_epoch)))
    stops_early = PATIENCE_SETTING in recipe.auto or settings.validation.patience is not None
    if "training.steps" not in recipe.auto:
        steps, stops_early = settings.steps, settings.validation.patience is not None
        yield {PATIENCE_SETTING: None}, f"all {steps:,} steps are taken, as training.steps is set"
    passes = f"about {format_times(steps / steps_per_epoch)} passes over {facts.text.pairs:,} pairs"
    values = {"training.steps": steps, "training.batch_tokens": batch}
    yield values, f"{passes}, or fewer if it stops learning" if stops_early else passes


def _choose_schedule(recipe: TranslationRecipe, facts: TokenFacts) -> Chosen:
    steps, width, closed = recipe.training.steps, recipe.model.width, facts.text.closed
    values = {
        "training.optimizer.learning_rate": 1e-3 if closed else 2e-3 if width <= 256 else 7e-4,
        WARMUP_SETTING: max(1, min(1000 if width <= 256 else 4000, steps // 10)),
    }
    yield values, f"for a width of {width} and {steps:,} steps"
    right = "only one answer is right" if closed else "several answers may be right"
    yield {"training.label_smoothing": 0.0 if closed else 0.1}, right


def _choose_validation(recipe: TranslationRecipe, facts: TokenFacts) -> Chosen:
    every = _round_to_two_digits(max(20.0, min(1000.0, recipe.training.steps / 20)))
    if "training.validation.every" not in recipe.auto:
        every = recipe.training.validation.every
    patience = recipe.training.validation.patience
    if PATIENCE_SETTING in recipe.auto:
        patience = PATIENCE
    reason = counted(math.ceil(recipe.training.steps / every), "validation")
    if patience is not None:
        reason = f"stop after {patience * every:,} steps without a better score"
    yield {"training.validation.every": every, PATIENCE_SETTING: patience}, reason
    yield {"training.save_every": min(500, every)}, ""


def _choose_beam(recipe: TranslationRecipe, facts: TokenFacts) -> Chosen:
    """A model of a closed language is nearly certain of every token, so that a beam finds nothing
    better; one that stops at enough finished hypotheses is worse, as short ones finish first.
    """
    if facts.text.closed:
        yield {"decoding.beam.size": 1}, "only one answer is right"
    else:
        yield {"decoding.beam.size": BeamSettings().size}, ""


def _choose_length_limits(recipe: TranslationRecipe, facts: TokenFacts) -> Chosen:
    """Limits on the length of translations, well above the lengths of the training targets."""
    names = {name: f"decoding.rules.{name}" for name in LengthLimits._fields}
    rules = recipe.decoding.rules
    given = {name: getattr(rules, name) for name in names if names[name] not in recipe.auto}
    limits = fit_limits(facts.source, facts.target, given)
    longest = int(facts.target.max(initial=0))
    ratio = f"{facts.target.sum() / max(1, facts.source.sum()):.1f} for each token of the source"
    reason = f"training targets have up to {longest:,} tokens, {ratio}"
    values = {names[name]: value for name, value in limits._asdict().items()}
    yield values, reason if limits != DEFAULT_LIMITS else ""


def _round_to_two_digits(number: float) -> int:
    """The number rounded to two significant digits, at least 1."""
    number = max(1.0, number)
    digits = max(0, math.floor(math.log10(number)) - 1)
    return int(round(number, -digits))
