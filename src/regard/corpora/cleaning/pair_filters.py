"""Filters that drop harmful training pairs, and count every one of them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from regard.corpora.cleaning.language_id import LEARNING_PAIRS, LanguageIdentifier
from regard.corpora.corpus import Pair
from regard.corpora.dedup import HashSet, hash_exact_pairs
from regard.corpora.languages import SCRIPTS, SPACED_SCRIPT_NAMES, script_name, scripts_of
from regard.iterate import chunked, peek
from regard.settings import Settings
from regard.text.word_units import split_units

CHUNK = 8192  # pairs that are processed together
RATIO_FLOOR = 10  # a shorter side counts as this many characters when lengths are compared
MAX_EXAMPLES, MAX_EXAMPLE_CHARACTERS = 3, 60  # kept for each reason; of each side
Reason = Literal[
    "empty",
    "control characters",
    "too many words",
    "too many characters",
    "lengths too unlike",
    "source equals target",
    "wrong script",
    "wrong language",
    "duplicate",
    "in valid or test",
]
"""Why a pair is dropped, in the order of the checks: the first that applies is counted."""

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ufffd]")

LeakRule = Literal["either", "source"]
IgnoredDifference = Literal["spacing", "punctuation"]


class CleaningSettings(Settings):
    """Which pairs are dropped before training. Texts are never changed.

    A pair is dropped if either side fails a check, and counted under the first reason that applies,
    in the order of the fields.
    """

    drop_empty: bool = True
    """Drop pairs with a side that is empty or only spaces."""
    drop_control: bool = True
    """Drop pairs with control characters (tabs are fine) or U+FFFD, the mark of lost text."""
    max_words: PositiveInt | None = 250
    """Drop pairs with more words (separated by spaces) than this; null allows any number. For
    scripts without spaces, `max_characters` is the limit instead."""
    max_characters: PositiveInt | None = 2000
    """Drop pairs with more characters than this; null allows any number."""
    max_ratio: float | None = Field(default=6.0, ge=1)
    """Drop pairs where one side has more than this many times the characters of the other, which
    counts as at least 10, so that short pairs pass; null allows any ratio. Chinese takes about a
    quarter of the characters of English; for two alphabets, 3 is a good choice."""
    drop_identical: bool = True
    """Drop pairs whose source equals the target, ignoring spaces at the ends."""
    drop_wrong_script: bool = True
    """Drop pairs with a side of which over half of the letters are not in its language's script."""
    scripts: tuple[str | None, str | None] = (None, None)
    """The scripts of source and target as ISO 15924 codes, such as Latn or Cyrl, where the language
    codes do not determine them; a side with neither is not checked."""
    drop_wrong_language: bool = False
    """Drop pairs with a side that is not in the language of most of the corpus, or with their sides
    exchanged. The languages are learned from the first 20,000 pairs; nothing is dropped if there
    are fewer than 1,000 or both sides look alike."""
    drop_duplicates: bool = True
    """Drop pairs that occurred before, with both sides exactly the same."""
    leaks: LeakRule = "either"
    """Drop pairs that share their source or target (`either`), or only their source (`source`, for
    corpora with few different targets), with a held-out pair, ignoring letter case and spaces."""
    leaks_ignore: IgnoredDifference = "spacing"
    """What `leaks` ignores besides letter case: `punctuation` also finds sentences that differ only
    in a full stop or comma."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        given = [script for script in self.scripts if script is not None]
        for script in given:
            if script not in SCRIPTS:
                raise ValueError(f"unknown script {script!r}; known: {', '.join(SCRIPTS)}")
        if given and not self.drop_wrong_script:
            raise ValueError("scripts would have no effect: drop_wrong_script is false")
        return self


class DropCount(NamedTuple):
    reason: Reason
    num_pairs: int
    share: float  # of all pairs, from 0 to 1
    example: str


@dataclass
class CleaningReport:
    """How many pairs were read, how many were dropped and why."""

    received: Counter[str] = field(default_factory=Counter)
    """Pairs that entered each stage: cleaning, then the search for leaks."""
    dropped: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Pair]] = field(default_factory=dict)
    """The first few pairs dropped for each reason, shortened."""

    @property
    def total(self) -> int:
        """Pairs that entered the first stage; later ones get no more."""
        return max(self.received.values(), default=0)

    @property
    def kept(self) -> int:
        """Pairs that no stage dropped, including those held out for validation and test."""
        return self.total - self.dropped.total()

    def drop(self, reason: Reason, pair: Pair) -> None:
        """Count a pair as dropped."""
        self.dropped[reason] += 1
        known = self.examples.setdefault(reason, [])
        if len(known) < MAX_EXAMPLES:
            known.append(Pair(*map(_shorten, pair)))

    def drop_where(self, mask: NDArray[np.bool_], reason: Reason, pairs: list[Pair]) -> list[Pair]:
        """Drop the pairs where `mask` (N,) is True; return the others."""
        kept = []
        for pair, is_dropped in zip(pairs, mask.tolist(), strict=True):
            if is_dropped:
                self.drop(reason, pair)
            else:
                kept.append(pair)
        return kept

    def rows(self) -> list[DropCount]:
        """A row for each reason that has dropped a pair, in the order of the checks."""
        return [
            DropCount(reason, count, count / self.total, " ||| ".join(self.examples[reason][0]))
            for reason in get_args(Reason)
            if (count := self.dropped[reason])
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything, as JSON types."""
        return {
            "total": self.total,
            "kept": self.kept,
            "dropped": {row.reason: row.num_pairs for row in self.rows()},
            "examples": {row.reason: self.examples[row.reason] for row in self.rows()},
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`."""
        examples = {why: [Pair(*pair) for pair in some] for why, some in saved["examples"].items()}
        return cls(Counter(saved=saved["total"]), Counter(saved["dropped"]), examples)


def _shorten(text: str) -> str:
    """The beginning of a text, printable."""
    text = text if len(text) <= MAX_EXAMPLE_CHARACTERS else f"{text[: MAX_EXAMPLE_CHARACTERS - 1]}…"
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def clean(
    pairs: Iterable[Pair],
    settings: CleaningSettings,
    languages: tuple[str, str],
    report: CleaningReport,
    seen: HashSet | None = None,
) -> Iterator[Pair]:
    """Pairs that pass all filters, without final line breaks; those in `seen` are duplicates."""
    checks = _checks(settings, languages)
    seen = HashSet() if seen is None else seen
    identifier = None
    if settings.drop_wrong_language:
        first, pairs = peek(pairs, LEARNING_PAIRS)
        identifier = LanguageIdentifier(first)
    for chunk in chunked(pairs, CHUNK):
        report.received["cleaning"] += len(chunk)
        kept = []
        for pair in (Pair(*(side.rstrip("\r\n") for side in pair)) for pair in chunk):
            reason = next((reason for reason, applies in checks.items() if applies(pair)), None)
            if reason is None:
                kept.append(pair)
            else:
                report.drop(reason, pair)
        if identifier is not None:
            kept = report.drop_where(identifier.classify(kept).wrong, "wrong language", kept)
        if settings.drop_duplicates:
            kept = report.drop_where(~seen.add_new(hash_exact_pairs(kept)), "duplicate", kept)
        yield from kept


def _checks(
    settings: CleaningSettings, languages: tuple[str, str]
) -> dict[Reason, Callable[[Pair], bool]]:
    """The checks of single pairs that the settings ask for, in order."""
    words, characters = settings.max_words or 0, settings.max_characters or 0
    ratio = settings.max_ratio or 0
    scripts = [
        (given,) if given else scripts_of(language)
        for given, language in zip(settings.scripts, languages, strict=True)
    ]
    letters = [
        frozenset(name for script in side for name in SCRIPTS[script].split()) for side in scripts
    ]
    checks: dict[Reason, tuple[object, Callable[[Pair], bool]]] = {
        "empty": (settings.drop_empty, lambda pair: not all(map(str.strip, pair))),
        "control characters": (settings.drop_control, _has_control),
        "too many words": (
            settings.max_words,  # more than n words take at least 2n + 1 characters
            lambda pair: any(len(x) > 2 * words and len(x.split()) > words for x in pair),
        ),
        "too many characters": (characters, lambda pair: max(map(len, pair)) > characters),
        "lengths too unlike": (ratio, partial(_exceeds_ratio, ratio)),
        "source equals target": (
            settings.drop_identical,
            lambda pair: pair.source.strip() == pair.target.strip(),
        ),
        "wrong script": (settings.drop_wrong_script, partial(_is_wrong_script, letters)),
    }
    return {reason: check for reason, (enabled, check) in checks.items() if enabled}


def _has_control(pair: Pair) -> bool:
    # isprintable is faster than the pattern, and True for most texts
    return any(
        "\ufffd" in side or (not side.isprintable() and _CONTROL.search(side)) for side in pair
    )


def _exceeds_ratio(ratio: float, pair: Pair) -> bool:
    shorter, longer = sorted(map(len, pair))
    return longer > ratio * max(shorter, RATIO_FLOOR)


def _is_wrong_script(expected: list[frozenset[str]], pair: Pair) -> bool:
    """Whether more than half of the letters of a side are of an unexpected script."""
    for side, names in zip(pair, expected, strict=True):
        if not names or (side.isascii() and "LATIN" in names):
            continue
        read = side
        if not names & SPACED_SCRIPT_NAMES:  # a foreign word then counts as one letter
            read = "".join(next(filter(str.isalpha, word), "") for word in split_units(side))
        letters = {char: count for char, count in Counter(read).items() if char.isalpha()}
        foreign = sum(count for char, count in letters.items() if script_name(char) not in names)
        if 2 * foreign > sum(letters.values()):
            return True
    return False
