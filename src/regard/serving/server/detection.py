"""Which language a text is in, by the letters of the texts that the served models learned from.

Naive Bayes over letters, pairs and triples of letters (Cavnar and Trenkle 1994 compare their ranks;
their probabilities say, besides, how sure one can be). It knows the languages of the served models
and no others, so what is sure of the best of them is scaled down by how much of the text is like
nothing that was learned from.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

ORDERS = (1, 2, 3)
"""Letters that are looked at together. Each letter is in as many of them, so a text's
log-probability is the sum over all divided by their number."""
SMOOTHING = 0.1
"""Added to every count: what was never seen is not impossible."""
LONGEST = 1000
"""Characters of a text that are looked at; more would change nothing."""
EXCERPTS = 8
"""Places in a longer text that these characters are taken from."""
SURE = 90.0
"""Confidence from which a text is taken to be in a language that the request does not name."""
MOST_WORDS = 2 / 3
"""Share of the words that must each be likeliest in that language: mixed texts have fewer."""

HIDDEN = re.compile(r"<(?:script|style)\b", re.IGNORECASE)
TAG = re.compile(r"</?\w[^<>]*>")


class Guess(NamedTuple):
    """A language that a text may be in."""

    language: str
    confidence: float
    """In percent; those of all languages sum to at most 100."""


class Profile:
    """How often a language has which letters next to each other."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts: Counter[str] = Counter()
        for text in texts:
            self._counts.update(letter_groups(text))
        totals: Counter[int] = Counter()
        kinds: Counter[int] = Counter()
        for group, count in self._counts.items():
            totals[len(group)] += count
            kinds[len(group)] += 1
        self._sizes = {n: totals[n] + SMOOTHING * (kinds[n] + 1) for n in ORDERS}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def log_probability(self, groups: Mapping[str, int]) -> float:
        """The natural logarithm of the probability of a text with these groups of letters."""
        return sum(
            count * math.log((self._counts[group] + SMOOTHING) / self._sizes[len(group)])
            for group, count in groups.items()
        ) / len(ORDERS)

    def share_known(self, groups: Mapping[str, int]) -> float:
        """The share of the longest groups that were seen before."""
        longest = {group: n for group, n in groups.items() if len(group) == ORDERS[-1]}
        known = sum(n for group, n in longest.items() if group in self._counts)
        return known / max(1, sum(longest.values()))


class Detector:
    """The profiles of some languages."""

    def __init__(self, texts: Mapping[str, Iterable[str]]) -> None:
        profiles = {language: Profile(lines) for language, lines in texts.items()}
        self._profiles = {language: one for language, one in profiles.items() if one}

    @property
    def languages(self) -> list[str]:
        """Those that can be detected."""
        return list(self._profiles)

    def detect(self, text: str, among: Collection[str] | None = None) -> list[Guess]:
        """Every language it knows, or those `among` them, the likeliest first."""
        profiles = {
            name: one for name, one in self._profiles.items() if among is None or name in among
        }
        groups = Counter(letter_groups(excerpt(text)))
        scores = {name: one.log_probability(groups) for name, one in profiles.items()}
        best = max(scores.values(), default=0.0)
        odds = {name: math.exp(score - best) for name, score in scores.items()}
        total = sum(odds.values())
        guesses = [
            Guess(name, 100 * odds[name] / total * profile.share_known(groups))
            for name, profile in profiles.items()
        ]
        return sorted(guesses, key=lambda guess: (-guess.confidence, -odds[guess.language]))

    def is_surely(self, text: str, language: str) -> bool:
        """Whether a text is in a language beyond doubt: as a whole, without any one of its words
        (a name, say), and by most of them, each taken alone."""
        best = next(iter(self.detect(text)), None)
        if best is None or best.language != language or best.confidence < SURE:
            return False
        own = self._profiles[language]
        others = [one for name, one in self._profiles.items() if name != language]
        odds = []  # of each word, against the likeliest other language, as a logarithm
        for word in map(Counter, word_groups(excerpt(text))):
            likeliest = max((one.log_probability(word) for one in others), default=-math.inf)
            odds.append(own.log_probability(word) - likeliest)
        return sum(odds) - max(odds) >= math.log(SURE / (100 - SURE)) and sum(
            one > 0 for one in odds
        ) >= MOST_WORDS * len(odds)


def excerpt(text: str) -> str:
    """The text, or as much of it as is looked at, taken from all over it."""
    if len(text) <= LONGEST:
        return text
    size, step = LONGEST // EXCERPTS, len(text) // EXCERPTS
    return " ".join(text[first : first + size] for first in range(0, step * EXCERPTS, step))


def without_tags(text: str) -> str:
    """What a reader sees of a web page, roughly: the names of tags are words of no language."""
    first, *rest = HIDDEN.split(text)
    shown = "".join([first, *(part.partition("</")[2].partition(">")[2] for part in rest)])
    return TAG.sub(" ", shown)


def has_word(text: str) -> bool:
    """Whether there is a word to tell a language by: one of two letters or more."""
    return any(len(group.strip()) > 1 for group in letter_groups(excerpt(text)))


def letter_groups(text: str) -> Iterator[str]:
    """One to three letters that stand together in a word, its ends marked by spaces."""
    for groups in word_groups(text):
        yield from groups


def word_groups(text: str) -> Iterator[list[str]]:
    """The groups of letters of each word."""
    letters = "".join(letter if letter.isalpha() else " " for letter in text.lower())
    for word in letters.split():
        padded = f" {word} "
        yield [
            group
            for n in ORDERS
            for first in range(len(padded) - n + 1)
            if not (group := padded[first : first + n]).isspace()
        ]
