"""What says `auto` -> values chosen from the training pairs and the machine, each with its reason.

Nothing here reads or writes: facts go in, choices come out. `TEXT_CHOOSERS` are asked before there
are tokens, `TOKEN_CHOOSERS` after, in their order; what does not say `auto` is left as it is.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
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
"""A language of at most so many different words, each used so often on average, is closed: all its
words are known, and what is to be learned is how they go together."""
MAX_COUNTED_WORDS = 50_000
"""Different words beyond which they are not counted."""
FULLY_SAMPLED_PAIRS = 20_000
"""Pairs beyond which sentences are looked for in every second, then every third, and so on."""


class Hardware(NamedTuple):
    """What trains."""

    gpu: bool
    cores: int

    def __str__(self) -> str:
        return "a GPU" if self.gpu else f"{self.cores} core{'s' if self.cores > 1 else ''}"


def training_hardware(device: torch.device) -> Hardware:
    """The machine as training on `device` will use it."""
    return Hardware(device.type != "cpu", torch.get_num_threads())


@dataclass(frozen=True)
class TextFacts:
    """What the training pairs are like, as text."""

    pairs: int
    words: tuple[int, int]
    """Running words of source and target, as spaces divide them."""
    distinct_words: int
    """Of both sides together; `MANY_WORDS` at the most."""
    segmentation: SegmentationStatistics = field(default_factory=SegmentationStatistics)
    """What they show of sentences; of a large corpus, what some of them show."""

    @property
    def closed(self) -> bool:
        """Whether the language has few words, each used often."""
        few = self.distinct_words <= CLOSED_MAX_WORDS
        return few and sum(self.words) >= CLOSED_MIN_USES * self.distinct_words

    def scaled_by(self, factor: float) -> "TextFacts":
        """The facts of a corpus so many times as large, of which this was a sample."""
        source, target = self.words
        return replace(
            self,
            pairs=round(factor * self.pairs),
            words=(round(factor * source), round(factor * target)),
        )


def collect_text_facts(pairs: Iterable[Pair]) -> TextFacts:
    """What there is to know of training pairs, in one pass."""
    count, words, distinct, segmentation = 0, [0, 0], set[str](), SegmentationStatistics()
    for chunk in chunked(pairs, CHUNK):
        for pair in chunk[:: 1 + count // FULLY_SAMPLED_PAIRS]:
            segmentation.add(pair)
        count += len(chunk)
        for place in (0, 1):
            split = [pair[place].split() for pair in chunk]
            words[place] += sum(map(len, split))
            if len(distinct) < MAX_COUNTED_WORDS:
                distinct.update(*split)
    known = min(len(distinct), MAX_COUNTED_WORDS)
    return TextFacts(count, (words[0], words[1]), known, segmentation)


TokenCounts = NDArray[np.int32]


@dataclass(frozen=True)
class TokenFacts:
    """All that choices are made from once there are tokens."""

    text: TextFacts
    source: TokenCounts
    """Tokens (N,) of the sources of training pairs that are learned from, without EOS."""
    target: TokenCounts
    machine: Hardware

    @property
    def positions(self) -> int:
        """Of one pass over all pairs: what batches are measured by."""
        longer = np.maximum(self.source, self.target).astype(np.int64) + 1
        return int(longer.sum() * (self.text.pairs / max(1, len(longer))))


TextChooser = Callable[[Recipe, TextFacts], Iterable[SettingChoice]]
TokenChooser = Callable[[Recipe, TokenFacts], Iterable[SettingChoice]]


class Resolved(NamedTuple):
    """A recipe that says less `auto` than before, and why."""

    recipe: Recipe
    choices: tuple[SettingChoice, ...]


def resolve_text(recipe: Recipe, facts: TextFacts) -> Resolved:
    """The recipe with what decides how text becomes tokens."""
    return _resolve(recipe, [chooser(recipe, facts) for chooser in TEXT_CHOOSERS])


def resolve(recipe: Recipe, facts: TokenFacts) -> Resolved:
    """The recipe with all that is left to choose; each chooser sees what the last ones chose."""
    choices: list[SettingChoice] = []
    for chooser in TOKEN_CHOOSERS:
        resolved = _resolve(recipe, [chooser(recipe, facts)])
        recipe = resolved.recipe
        choices += resolved.choices
    return Resolved(recipe, tuple(choices))


def _resolve(recipe: Recipe, offered: Sequence[Iterable[SettingChoice]]) -> Resolved:
    asked = {one.setting: one for some in offered for one in some if one.setting in recipe.auto}
    return Resolved(recipe.with_choices(asked.values()), tuple(asked.values()))


def _choose_vocabulary(recipe: Recipe, facts: TextFacts) -> Iterator[SettingChoice]:
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
    """How large a model is."""

    layers: int
    width: int
    heads: int
    feed_forward: int


CLOSED_SIZE, TINY_SIZE = _ModelSize(2, 128, 8, 512), _ModelSize(3, 128, 4, 512)
SMALL_SIZE, BASE_SIZE = _ModelSize(3, 256, 4, 1024), _ModelSize(6, 512, 8, 2048)


CLOSED_PAIRS_WITHOUT_DROPOUT = 10_000
"""Pairs of a closed language that are not learned by heart: a model of them needs no dropout."""


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
    """Heads that divide a width that is given, none of them narrow."""
    return next((heads for heads in (8, 4, 2) if width % heads == 0 and width >= 32 * heads), 1)


MAX_CPU_STEPS = 20_000
"""Of training on a CPU; a GPU takes twice as many, of batches twice as large."""
EPOCHS, CLOSED_EPOCHS = 40, 30
"""Over the corpus, unless it is large, and where its language is closed: early stopping ends what
learns no more."""
MIN_STEPS = 1000


def _choose_steps(recipe: Recipe, facts: TokenFacts) -> Iterator[SettingChoice]:
    settings, positions, open_places = recipe.training, facts.positions, recipe.auto
    batch = 1024 if positions < 200_000 else 2048 if positions < 1_000_000 else 4096
    if facts.machine.gpu and positions >= 4_000_000:
        batch = 8192
    if "training.batch_tokens" not in open_places:
        batch = settings.batch_tokens
    steps_per_epoch = max(1.0, positions / (batch * settings.accumulate))
    most = MAX_CPU_STEPS * (2 if facts.machine.gpu else 1)
    epochs = CLOSED_EPOCHS if facts.text.closed else EPOCHS
    steps = _round_to_two_digits(min(most, max(MIN_STEPS, epochs * steps_per_epoch)))
    if "training.steps" not in open_places:
        steps = settings.steps
    reason = (
        f"{steps / steps_per_epoch:,.0f} passes over {facts.text.pairs:,} pairs, or fewer if it "
        "stops "
        "learning"
    )
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
    """The width of the search.

    A model that is sure of every token finds nothing better in a beam. It loses by one that stops
    as soon as enough hypotheses have finished: the unlikely short ones finish first.
    """
    if facts.text.closed:
        yield SettingChoice("decoding.beam.size", 1, "one answer alone is right")
    else:
        yield SettingChoice("decoding.beam.size", BeamSettings().size, "")


def _choose_length_limits(recipe: Recipe, facts: TokenFacts) -> Iterator[SettingChoice]:
    """LengthLimits on answers that training targets fit with room to spare."""
    rules, place = recipe.decoding.rules, "decoding.rules"
    given = {
        name: getattr(rules, name)
        for name in LengthLimits._fields
        if f"{place}.{name}" not in recipe.auto
    }
    found, longest = fit_limits(facts.source, facts.target, given), int(facts.target.max(initial=0))
    told = (
        f"training targets have up to {longest:,} tokens, {_length_ratio(facts):.1f} for each "
        "token of "
        "the source"
    )
    for name, value in found._asdict().items():
        yield SettingChoice(f"{place}.{name}", value, "" if found == DEFAULT_LIMITS else told)


def _length_ratio(facts: TokenFacts) -> float:
    return float(facts.target.sum() / max(1, facts.source.sum()))


def _round_to_two_digits(number: float) -> int:
    """A number near by with two digits, at least 1."""
    number = max(1.0, number)
    digits = max(0, math.floor(math.log10(number)) - 1)
    return int(round(number, -digits))


def _choose_input(recipe: Recipe, facts: TextFacts) -> Iterator[SettingChoice]:
    found = facts.segmentation
    settings = found.settings()
    yield SettingChoice(AUTO_INPUT[0], settings.split_sentences, str(found))
    yield SettingChoice(AUTO_INPUT[1], settings.pass_through, str(found))


TEXT_CHOOSERS: tuple[TextChooser, ...] = (_choose_vocabulary, _choose_input)
TOKEN_CHOOSERS: tuple[TokenChooser, ...] = (
    _choose_model_size,
    _choose_steps,
    _choose_schedule,
    _choose_validation,
    _choose_beam,
    _choose_length_limits,
)
