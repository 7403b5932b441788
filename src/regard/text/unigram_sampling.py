"""Cutting a word at random by a unigram model.

SentencePiece samples too, but mixes something of the process into its seed, so that a run that is
resumed in a new process would see other text than one that was never stopped.
"""

import math
from bisect import bisect
from collections.abc import Mapping
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import NamedTuple

_CACHE_SIZE = 1 << 14  # most words of a text are among the commonest
_UNKNOWN_PENALTY = 10.0  # as SentencePiece has it, below the least likely piece


class _EndingPieces(NamedTuple):
    """The pieces that may end at a place of a word, by where they begin, and how likely each is."""

    starts: list[int]
    cumulative: list[float]


class UnigramSampler:
    """Subword regularisation (Kudo 2018): a cut is as likely as its probability to the `power`."""

    def __init__(self, scores: Mapping[str, float], power: float) -> None:
        """`scores` are the logarithms of the pieces' probabilities."""
        self._scores, self._power = scores, power
        self._max_piece_characters = max(map(len, scores))
        self._unknown = min(scores.values()) - _UNKNOWN_PENALTY
        self._endings = lru_cache(_CACHE_SIZE)(self._find_endings)

    def cut(self, word: str, rng: Random) -> list[str]:
        """The pieces of `word`; a character that no piece holds is one of them."""
        endings = self._endings(word)
        pieces, last = [], len(word)
        while last:
            starts, cumulative = endings[last - 1]
            drawn = bisect(cumulative, rng.random() * cumulative[-1])
            first = starts[min(drawn, len(starts) - 1)]
            pieces.append(word[first:last])
            last = first
        return pieces[::-1]

    def _find_endings(self, word: str) -> list[_EndingPieces]:
        """For each place of the word what may end there, given all cuts of what is before."""
        endings = []
        totals = [0.0]  # logarithm of the weight of all cuts of the word up to a place
        for last in range(1, len(word) + 1):
            found = []
            for first in range(max(0, last - self._max_piece_characters), last):
                score = self._scores.get(word[first:last])
                if score is None and first == last - 1:
                    score = self._unknown
                if score is not None:
                    found.append((first, totals[first] + self._power * score))
            highest = max(weight for _, weight in found)
            cumulative = list(accumulate(math.exp(weight - highest) for _, weight in found))
            endings.append(_EndingPieces([first for first, _ in found], cumulative))
            totals.append(highest + math.log(cumulative[-1]))
        return endings
