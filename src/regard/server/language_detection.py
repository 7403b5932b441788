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

NGRAM_ORDERS = (1, 2, 3)
"""Letters that are looked at together. Each letter is in as many of them, so a text's
log-probability is the sum over all divided by their number."""
SMOOTHING = 0.1
"""Added to every count: what was never seen is not impossible."""
MAX_CHARACTERS = 1000
"""Characters of a text that are looked at; more would change nothing."""
NUM_EXCERPTS = 8
"""Places in a longer text that these characters are taken from."""
MIN_CERTAIN_CONFIDENCE = 90.0
"""Confidence from which a text is taken to be in a language that the request does not name."""
MIN_WORD_SHARE = 2 / 3
"""Share of the words that must each be likeliest in that language: mixed texts have fewer."""

SCRIPT_OR_STYLE = re.compile(r"<(?:script|style)\b", re.IGNORECASE)
TAG = re.compile(r"</?\w[^<>]*>")


class LanguageGuess(NamedTuple):
    """A language that a text may be in."""

    language: str
    confidence: float
    """In percent; those of all languages sum to at most 100."""


class NgramProfile:
    """How often a language has which letters next to each other."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts: Counter[str] = Counter()
        for text in texts:
            self._counts.update(char_ngrams(text))
        totals: Counter[int] = Counter()
        num_types: Counter[int] = Counter()
        for ngram, count in self._counts.items():
            totals[len(ngram)] += count
            num_types[len(ngram)] += 1
        self._sizes = {n: totals[n] + SMOOTHING * (num_types[n] + 1) for n in NGRAM_ORDERS}

    def __bool__(self) -> bool:
        return bool(self._counts)

    def log_probability(self, ngrams: Mapping[str, int]) -> float:
        """The natural logarithm of the probability of a text with these groups of letters."""
        return sum(
            count * math.log((self._counts[ngram] + SMOOTHING) / self._sizes[len(ngram)])
            for ngram, count in ngrams.items()
        ) / len(NGRAM_ORDERS)

    def known_share(self, ngrams: Mapping[str, int]) -> float:
        """The share of the longest groups that were seen before."""
        highest_order = {ngram: n for ngram, n in ngrams.items() if len(ngram) == NGRAM_ORDERS[-1]}
        known = sum(n for ngram, n in highest_order.items() if ngram in self._counts)
        return known / max(1, sum(highest_order.values()))


class Detector:
    """The profiles of some languages."""

    def __init__(self, texts: Mapping[str, Iterable[str]]) -> None:
        profiles = {language: NgramProfile(lines) for language, lines in texts.items()}
        self._profiles = {language: one for language, one in profiles.items() if one}

    @property
    def languages(self) -> list[str]:
        """Those that can be detected."""
        return list(self._profiles)

    def detect(self, text: str, candidates: Collection[str] | None = None) -> list[LanguageGuess]:
        """Every language it knows, or those `among` them, the likeliest first."""
        profiles = {
            name: one
            for name, one in self._profiles.items()
            if candidates is None or name in candidates
        }
        ngrams = Counter(char_ngrams(excerpt(text)))
        scores = {name: one.log_probability(ngrams) for name, one in profiles.items()}
        best = max(scores.values(), default=0.0)
        odds = {name: math.exp(score - best) for name, score in scores.items()}
        total = sum(odds.values())
        guesses = [
            LanguageGuess(name, 100 * odds[name] / total * profile.known_share(ngrams))
            for name, profile in profiles.items()
        ]
        return sorted(guesses, key=lambda guess: (-guess.confidence, -odds[guess.language]))

    def is_certainly(self, text: str, language: str) -> bool:
        """Whether a text is in a language beyond doubt: as a whole, without any one of its words
        (a name, say), and by most of them, each taken alone."""
        best = next(iter(self.detect(text)), None)
        if best is None or best.language != language or best.confidence < MIN_CERTAIN_CONFIDENCE:
            return False
        own = self._profiles[language]
        others = [one for name, one in self._profiles.items() if name != language]
        odds = []  # of each word, against the likeliest other language, as a logarithm
        for word in map(Counter, word_ngrams(excerpt(text))):
            likeliest = max((one.log_probability(word) for one in others), default=-math.inf)
            odds.append(own.log_probability(word) - likeliest)
        return sum(odds) - max(odds) >= math.log(
            MIN_CERTAIN_CONFIDENCE / (100 - MIN_CERTAIN_CONFIDENCE)
        ) and sum(one > 0 for one in odds) >= MIN_WORD_SHARE * len(odds)


def excerpt(text: str) -> str:
    """The text, or as much of it as is looked at, taken from all over it."""
    if len(text) <= MAX_CHARACTERS:
        return text
    size, step = MAX_CHARACTERS // NUM_EXCERPTS, len(text) // NUM_EXCERPTS
    return " ".join(text[first : first + size] for first in range(0, step * NUM_EXCERPTS, step))


def strip_tags(text: str) -> str:
    """What a reader sees of a web page, roughly: the names of tags are words of no language."""
    first, *rest = SCRIPT_OR_STYLE.split(text)
    visible = "".join([first, *(part.partition("</")[2].partition(">")[2] for part in rest)])
    return TAG.sub(" ", visible)


def has_word(text: str) -> bool:
    """Whether there is a word to tell a language by: one of two letters or more."""
    return any(len(ngram.strip()) > 1 for ngram in char_ngrams(excerpt(text)))


def char_ngrams(text: str) -> Iterator[str]:
    """One to three letters that stand together in a word, its ends marked by spaces."""
    for ngrams in word_ngrams(text):
        yield from ngrams


def word_ngrams(text: str) -> Iterator[list[str]]:
    """The groups of letters of each word."""
    cleaned = "".join(char if char.isalpha() else " " for char in text.lower())
    for word in cleaned.split():
        padded = f" {word} "
        yield [
            ngram
            for n in NGRAM_ORDERS
            for first in range(len(padded) - n + 1)
            if not (ngram := padded[first : first + n]).isspace()
        ]
