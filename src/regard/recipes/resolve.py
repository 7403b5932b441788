"""What says `auto` -> values chosen from the training pairs and the machine, each with its reason.

Nothing here reads or writes: facts go in, choices come out. `TEXT_CHOOSERS` are asked before there
are tokens, `CHOOSERS` after, in their order; what does not say `auto` is left as it is.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.corpora.cleaning import CHUNK
from regard.corpora.pairs import Pair
from regard.decoding.settings import RuleSettings
from regard.recipes.auto import SIZES, Choice
from regard.recipes.schema import Recipe
from regard.streams import chunked

CLOSED_WORDS, CLOSED_USES = 2000, 50
"""A language of at most so many different words, each used so often on average, is closed: all its
words are known, and what is to be learned is how they go together."""
MANY_WORDS = 50_000
"""Different words beyond which they are not counted."""


class Machine(NamedTuple):
    """What trains."""

    gpu: bool
    cores: int

    def __str__(self) -> str:
        return "a GPU" if self.gpu else f"{self.cores} core{'s' if self.cores > 1 else ''}"


def this_machine(device: torch.device) -> Machine:
    """The machine as training on `device` will use it."""
    return Machine(device.type != "cpu", torch.get_num_threads())


@dataclass(frozen=True)
class TextFacts:
    """What the training pairs are like, as text."""

    pairs: int
    words: tuple[int, int]
    """Running words of source and target, as spaces divide them."""
    distinct_words: int
    """Of both sides together; `MANY_WORDS` at the most."""

    @property
    def closed(self) -> bool:
        """Whether the language has few words, each used often."""
        few = self.distinct_words <= CLOSED_WORDS
        return few and sum(self.words) >= CLOSED_USES * self.distinct_words

    def grown(self, factor: float) -> "TextFacts":
        """The facts of a corpus so many times as large, of which this was a sample."""
        source, target = self.words
        return replace(
            self,
            pairs=round(factor * self.pairs),
            words=(round(factor * source), round(factor * target)),
        )


def read_facts(pairs: Iterable[Pair]) -> TextFacts:
    """What there is to know of training pairs, in one pass."""
    count, words, distinct = 0, [0, 0], set[str]()
    for chunk in chunked(pairs, CHUNK):
        count += len(chunk)
        for place in (0, 1):
            split = [pair[place].split() for pair in chunk]
            words[place] += sum(map(len, split))
            if len(distinct) < MANY_WORDS:
                distinct.update(*split)
    return TextFacts(count, (words[0], words[1]), min(len(distinct), MANY_WORDS))


Lengths = NDArray[np.int32]


@dataclass(frozen=True)
class Facts:
    """All that choices are made from once there are tokens."""

    text: TextFacts
    source: Lengths
    """Tokens (N,) of the sources of training pairs that are learned from, without EOS."""
    target: Lengths
    machine: Machine

    @property
    def positions(self) -> int:
        """Of one pass over all pairs: what batches are measured by."""
        longer = np.maximum(self.source, self.target).astype(np.int64) + 1
        return int(longer.sum() * (self.text.pairs / max(1, len(longer))))


TextChooser = Callable[[Recipe, TextFacts], Iterable[Choice]]
Chooser = Callable[[Recipe, Facts], Iterable[Choice]]


class Resolved(NamedTuple):
    """A recipe that says less `auto` than before, and why."""

    recipe: Recipe
    choices: tuple[Choice, ...]


def resolve_text(recipe: Recipe, facts: TextFacts) -> Resolved:
    """The recipe with what decides how text becomes tokens."""
    return _resolve(recipe, [chooser(recipe, facts) for chooser in TEXT_CHOOSERS])


def resolve(recipe: Recipe, facts: Facts) -> Resolved:
    """The recipe with all that is left to choose; each chooser sees what the last ones chose."""
    choices: list[Choice] = []
    for chooser in CHOOSERS:
        resolved = _resolve(recipe, [chooser(recipe, facts)])
        recipe = resolved.recipe
        choices += resolved.choices
    return Resolved(recipe, tuple(choices))


def _resolve(recipe: Recipe, offered: Sequence[Iterable[Choice]]) -> Resolved:
    asked = {one.place: one for some in offered for one in some if one.place in recipe.auto}
    return Resolved(recipe.settled(asked.values()), tuple(asked.values()))


def _vocabulary(recipe: Recipe, facts: TextFacts) -> Iterator[Choice]:
    if facts.closed:
        reason = f"all {facts.distinct_words:,} words of the corpus become pieces of their own"
        yield Choice("text.source.size", 8000, reason)
        return
    size = round(2000 * math.sqrt(facts.pairs / 5000), -3)
    size = int(min(32_000, max(1000, size)))
    yield Choice("text.source.size", size, f"{facts.pairs:,} pairs teach about so many pieces well")


class _Size(NamedTuple):
    """How large a model is."""

    layers: int
    width: int
    heads: int
    feed_forward: int


SMALLER, SMALL, BASE = _Size(3, 128, 4, 512), _Size(3, 256, 4, 1024), _Size(6, 512, 8, 2048)


def _model(recipe: Recipe, facts: Facts) -> Iterator[Choice]:
    pairs = facts.text.pairs
    if facts.text.closed:
        size, reason = SMALLER, f"a language of {facts.text.distinct_words:,} words needs no more"
    elif pairs < 10_000:
        size, reason = SMALLER, f"{pairs:,} pairs would be learned by heart by a larger one"
    elif facts.machine.gpu and pairs >= 200_000:
        size, reason = BASE, f"{pairs:,} pairs on a GPU can teach the base model"
    else:
        size, reason = SMALL, f"for {pairs:,} pairs on {facts.machine}"
    values = (size.layers, size.layers, size.width, size.heads, size.feed_forward)
    for name, value in zip(SIZES, values, strict=True):
        yield Choice(f"model.{name}", value, reason)


def _dropout(recipe: Recipe, facts: Facts) -> Iterator[Choice]:
    pairs = facts.text.pairs
    if facts.text.closed:
        yield Choice("model.dropout", 0.1, "few words, each seen often: little is learned by heart")
        return
    value = 0.3 if pairs < 50_000 else 0.2 if pairs < 500_000 else 0.1
    yield Choice("model.dropout", value, f"the fewer pairs the more, and there are {pairs:,}")


MOST_STEPS = 20_000
"""Of training on a CPU; a GPU takes twice as many, of batches twice as large."""
PASSES = 40
"""Over the corpus, unless it is large: early stopping ends what learns no more."""


def _batches(recipe: Recipe, facts: Facts) -> Iterator[Choice]:
    positions = facts.positions
    batch = 1024 if positions < 200_000 else 2048 if positions < 1_000_000 else 4096
    if facts.machine.gpu and positions >= 4_000_000:
        batch = 8192
    reason = f"{max(1, positions // batch):,} updates in each pass over {positions:,} tokens"
    yield Choice("training.batch_tokens", batch, reason)


def _steps(recipe: Recipe, facts: Facts) -> Iterator[Choice]:
    settings = recipe.training
    in_a_pass = facts.positions / (settings.batch_tokens * settings.accumulate)
    most = MOST_STEPS * (2 if facts.machine.gpu else 1)
    steps = _rounded(min(most, max(1000.0, PASSES * in_a_pass)))
    passes = steps / in_a_pass
    reason = f"{passes:,.0f} passes over {facts.text.pairs:,} pairs; fewer if it stops learning"
    yield Choice("training.steps", steps, reason)


def _schedule(recipe: Recipe, facts: Facts) -> Iterator[Choice]:
    steps, width = recipe.training.steps, recipe.model.width
    rate = 2e-3 if width <= 256 else 7e-4
    yield Choice("training.optimizer.learning_rate", rate, f"for a width of {width}")
    warmup = max(1, min(1000 if width <= 256 else 4000, steps // 10))
    yield Choice("training.schedule.warmup", warmup, "a tenth of the steps, and no more than helps")
    smoothing = 0.0 if facts.text.closed else 0.1
    reason = "one answer is right" if facts.text.closed else "several answers are right"
    yield Choice("training.label_smoothing", smoothing, reason)


def _validation(recipe: Recipe, facts: Facts) -> Iterator[Choice]:
    steps = recipe.training.steps
    every = _rounded(max(1, min(1000, steps / 20)))
    yield Choice("training.validation.every", every, f"{max(1, steps // every)} times in all")
    patience = 8
    reason = f"stop after {patience * every:,} steps without a better score"
    yield Choice("training.validation.patience", patience, reason)
    yield Choice("training.save_every", max(1, min(500, every)), "little is lost when it is killed")


ENOUGH = 0.999
"""Share of the training references that fit the limits on answers."""
ROOM = 1.25
"""Times the tokens of a reference that its answer may have."""
RATIOS = (2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 30.0, 50.0)


def _limits(recipe: Recipe, facts: Facts) -> Iterator[Choice]:
    """Limits on answers that training references fit with room to spare; never below the defaults.

    Of the pairs of ratio and offset that do, the one that allows least in all.
    """
    rules, place = RuleSettings(), "decoding.rules"
    given = {
        name: getattr(recipe.decoding.rules, name)
        for name in ("max_length", "max_length_ratio", "max_length_offset")
        if f"{place}.{name}" not in recipe.auto
    }
    needed = np.ceil(ROOM * (facts.target.astype(np.float64) + 1))  # with EOS
    ratio, offset = _line(facts.source, needed, given, rules)
    most = max(rules.max_length, int(needed.max(initial=0)))
    usual = (ratio, offset, most) == (
        rules.max_length_ratio,
        rules.max_length_offset,
        rules.max_length,
    )
    longest = int(facts.target.max(initial=0))
    reason = (
        ""
        if usual
        else f"training targets have up to {longest:,} tokens, {_times(facts):.1f} for each of the "
        "source on average"
    )
    yield Choice(f"{place}.max_length", most, reason)
    yield Choice(f"{place}.max_length_ratio", ratio, reason)
    yield Choice(f"{place}.max_length_offset", offset, reason)


def _line(
    source: Lengths, needed: NDArray[np.float64], given: dict[str, float], rules: RuleSettings
) -> tuple[float, int]:
    """The ratio and the offset: of those that suffice, the ones that allow least on average."""
    ratios = [given["max_length_ratio"]] if "max_length_ratio" in given else RATIOS
    best: tuple[float, float, int] | None = None
    for ratio in ratios:
        beyond = needed - ratio * source
        least = float(np.quantile(beyond, ENOUGH, method="higher")) if len(beyond) else 0.0
        offset = int(given.get("max_length_offset", max(rules.max_length_offset, math.ceil(least))))
        short = max(0.0, least - offset)  # where an offset that was given does not suffice
        allowed = float(ratio * source.mean()) + offset if len(source) else 0.0
        cost = allowed + 1000 * short
        if best is None or cost < best[0]:
            best = (cost, ratio, offset)
    assert best is not None
    return best[1], best[2]


def _times(facts: Facts) -> float:
    return float(facts.target.sum() / max(1, facts.source.sum()))


def _rounded(number: float) -> int:
    """A number near by with two digits, at least 1."""
    number = max(1.0, number)
    digits = max(0, math.floor(math.log10(number)) - 1)
    return int(round(number, -digits))


TEXT_CHOOSERS: tuple[TextChooser, ...] = (_vocabulary,)
CHOOSERS: tuple[Chooser, ...] = (
    _model,
    _dropout,
    _batches,
    _steps,
    _schedule,
    _validation,
    _limits,
)
