"""Ways to cut a word at random: BPE-dropout, and sampling from a unigram model.

SentencePiece samples too, but mixes something of the process into its seed, so that a run that is
resumed in a new process would see other text than one that was never stopped.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from random import Random
from typing import NamedTuple

_REMEMBERED = 1 << 14  # most words of a text are among the commonest
_UNKNOWN_PENALTY = 10.0  # as SentencePiece has it, below the least likely piece


class Cutter(ABC):
    """Cuts words with the pieces of a vocabulary and their scores."""

    @abstractmethod
    def cut(self, word: str, chance: Random) -> Sequence[str]:
        """The pieces of `word`; a character that no piece holds is one of them."""


class _Merges(NamedTuple):
    """The merges that cut a word without dropout: where each happens, and the symbols at last."""

    places: list[int]
    symbols: tuple[str, ...]


class Dropout(Cutter):
    """BPE-dropout (Provilkov et al. 2020, algorithm 1)."""

    def __init__(self, scores: Mapping[str, float], probability: float) -> None:
        """`probability` is the share of the possible merges left out at each step."""
        self._scores, self._probability = scores, probability
        self._all_merges = lru_cache(_REMEMBERED)(self._merge_all)

    def cut(self, word: str, chance: Random) -> Sequence[str]:
        symbols = tuple(word)
        while True:
            # One draw tells how many best merges are kept before one is left out.
            kept = math.log(1.0 - chance.random()) / math.log1p(-self._probability)
            places, merged = self._all_merges(symbols)
            if kept >= len(places):
                return merged
            for place in places[: int(kept)]:
                symbols = _merge(symbols, place)
            others = self._candidates(symbols)[1:]
            place = next((i for i in others if chance.random() >= self._probability), -1)
            if place < 0:
                return symbols
            symbols = _merge(symbols, place)

    def _merge_all(self, symbols: tuple[str, ...]) -> _Merges:
        places = []
        while candidates := self._candidates(symbols):
            places.append(candidates[0])
            symbols = _merge(symbols, candidates[0])
        return _Merges(places, symbols)

    def _candidates(self, symbols: tuple[str, ...]) -> list[int]:
        """Where two symbols make a piece, the piece learned first coming first."""
        scores = [self._scores.get(left + right) for left, right in pairwise(symbols)]
        found = [(-score, place) for place, score in enumerate(scores) if score is not None]
        return [place for _, place in sorted(found)]


def _merge(symbols: tuple[str, ...], place: int) -> tuple[str, ...]:
    return (*symbols[:place], symbols[place] + symbols[place + 1], *symbols[place + 2 :])


class _Ending(NamedTuple):
    """The pieces that may end at a place of a word, by where they begin, and how likely each is."""

    starts: list[int]
    cumulative: list[float]


class Lattice(Cutter):
    """Subword regularisation (Kudo 2018): a cut is as likely as its probability to the `power`."""

    def __init__(self, scores: Mapping[str, float], power: float) -> None:
        """`scores` are the logarithms of the pieces' probabilities."""
        self._scores, self._power = scores, power
        self._longest = max(map(len, scores))
        self._unknown = min(scores.values()) - _UNKNOWN_PENALTY
        self._endings = lru_cache(_REMEMBERED)(self._find_endings)

    def cut(self, word: str, chance: Random) -> Sequence[str]:
        endings = self._endings(word)
        pieces, last = [], len(word)
        while last:
            starts, cumulative = endings[last - 1]
            drawn = bisect(cumulative, chance.random() * cumulative[-1])
            first = starts[min(drawn, len(starts) - 1)]
            pieces.append(word[first:last])
            last = first
        return pieces[::-1]

    def _find_endings(self, word: str) -> list[_Ending]:
        """For each place of the word what may end there, given all cuts of what is before."""
        endings = []
        totals = [0.0]  # logarithm of the weight of all cuts of the word up to a place
        for last in range(1, len(word) + 1):
            found = []
            for first in range(max(0, last - self._longest), last):
                score = self._scores.get(word[first:last])
                if score is None and first == last - 1:
                    score = self._unknown
                if score is not None:
                    found.append((first, totals[first] + self._power * score))
            highest = max(weight for _, weight in found)
            cumulative = list(accumulate(math.exp(weight - highest) for _, weight in found))
            endings.append(_Ending([first for first, _ in found], cumulative))
            totals.append(highest + math.log(cumulative[-1]))
        return endings
