"""Detects the language of a text by naive Bayes over character n-grams.

The n-grams come from the training data of the served models, and only their languages are known.
The confidence is therefore scaled by the share of the text's n-grams that occur in that data.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import NamedTuple

NGRAM_ORDERS = (1, 2, 3)  # a character is in one n-gram of each: log-probabilities are averaged
SMOOTHING = 0.1  # added to every count, so that unseen n-grams are not impossible
MAX_CHARACTERS = 1000  # characters of a text that are examined
NUM_EXCERPTS = 8  # excerpts of a longer text that these characters are taken from
MIN_CERTAIN_CONFIDENCE = 90.0  # needed to assign a language that the request does not name
MIN_WORD_SHARE = 2 / 3  # of the words must each be likeliest in it: mixed texts have fewer

SCRIPT_OR_STYLE = re.compile(r"<(?:script|style)\b", re.IGNORECASE)
TAG = re.compile(r"<!--.*?(?:-->|\Z)|<[/!?]?\w[^<>]*>", re.DOTALL)  # or comment, or declaration


class LanguageGuess(NamedTuple):
    """A language that a text may be in."""

    language: str
    confidence: float  # in percent; those of all languages sum to at most 100


class NgramProfile:
    """The n-gram counts of a language."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts = Counter(chain.from_iterable(map(char_ngrams, texts)))
        self._sizes = dict.fromkeys(NGRAM_ORDERS, SMOOTHING)
        for ngram, count in self._counts.items():
            self._sizes[len(ngram)] += count + SMOOTHING

    def __bool__(self) -> bool:
        return bool(self._counts)

    def log_probability(self, ngrams: Mapping[str, int]) -> float:
        """The natural logarithm of the probability of a text with these n-grams."""
        return sum(
            count * math.log((self._counts[ngram] + SMOOTHING) / self._sizes[len(ngram)])
            for ngram, count in ngrams.items()
        ) / len(NGRAM_ORDERS)

    def known_share(self, ngrams: Mapping[str, int]) -> float:
        """The share of the n-grams of the highest order that are in the profile."""
        longest = {ngram: n for ngram, n in ngrams.items() if len(ngram) == NGRAM_ORDERS[-1]}
        known = sum(n for ngram, n in longest.items() if ngram in self._counts)
        return known / max(1, sum(longest.values()))


class Detector:
    """Detects the languages of some texts."""

    def __init__(self, texts: Mapping[str, Iterable[str]]) -> None:
        profiles = {language: NgramProfile(lines) for language, lines in texts.items()}
        self._profiles = {language: profile for language, profile in profiles.items() if profile}

    @property
    def languages(self) -> list[str]:
        """The languages that can be detected."""
        return list(self._profiles)

    def detect(self, text: str, candidates: Collection[str] | None = None) -> list[LanguageGuess]:
        """The likely languages, out of all or of `candidates`, the likeliest first."""
        names = [name for name in self._profiles if candidates is None or name in candidates]
        ngrams = Counter(char_ngrams(excerpt(text)))
        scores = {name: self._profiles[name].log_probability(ngrams) for name in names}
        best = max(scores.values(), default=0.0)
        odds = {name: math.exp(score - best) for name, score in scores.items()}
        total = sum(odds.values())
        guesses = [
            LanguageGuess(name, 100 * odds[name] / total * self._profiles[name].known_share(ngrams))
            for name in names
        ]
        return sorted(guesses, key=lambda guess: (-guess.confidence, -odds[guess.language]))

    def is_certainly(self, text: str, language: str) -> bool:
        """Whether a text is certainly in a language: as a whole, with any one word (perhaps a name)
        left out, and by most of its words, each taken alone.
        """
        best = next(iter(self.detect(text)), None)
        if best is None or best.language != language or best.confidence < MIN_CERTAIN_CONFIDENCE:
            return False
        profile = self._profiles[language]
        others = [other for name, other in self._profiles.items() if name != language]
        log_odds = []  # of each word, against the likeliest other language
        for word in map(Counter, word_ngrams(excerpt(text))):
            likeliest = max((other.log_probability(word) for other in others), default=-math.inf)
            log_odds.append(profile.log_probability(word) - likeliest)
        certain = math.log(MIN_CERTAIN_CONFIDENCE / (100 - MIN_CERTAIN_CONFIDENCE))
        num_likely = sum(one > 0 for one in log_odds)
        enough_words = num_likely >= MIN_WORD_SHARE * len(log_odds)
        return enough_words and sum(log_odds) - max(log_odds) >= certain


def excerpt(text: str) -> str:
    """The text, or evenly spread excerpts of a long one."""
    if len(text) <= MAX_CHARACTERS:
        return text
    size, step = MAX_CHARACTERS // NUM_EXCERPTS, len(text) // NUM_EXCERPTS
    return " ".join(text[first : first + size] for first in range(0, step * NUM_EXCERPTS, step))


def strip_tags(text: str) -> str:
    """The visible text of a web page, roughly, as tags and comments would mislead the detection."""
    first, *rest = SCRIPT_OR_STYLE.split(text)
    visible = "".join([first, *(part.partition("</")[2].partition(">")[2] for part in rest)])
    return TAG.sub(" ", visible)


def has_word(text: str) -> bool:
    """Whether there is a word of two letters or more, from which a language can be detected."""
    return any(len(ngram.strip()) > 1 for ngram in char_ngrams(excerpt(text)))


def char_ngrams(text: str) -> Iterator[str]:
    """The n-grams of all words."""
    return chain.from_iterable(word_ngrams(text))


def word_ngrams(text: str) -> Iterator[list[str]]:
    """The character n-grams of each word, whose ends are marked by spaces."""
    cleaned = "".join(char if char.isalpha() else " " for char in text.lower())
    for word in cleaned.split():
        padded = f" {word} "
        yield [
            ngram
            for n in NGRAM_ORDERS
            for first in range(len(padded) - n + 1)
            if not (ngram := padded[first : first + n]).isspace()
        ]
