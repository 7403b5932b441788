"""Texts -> their letter trigrams as hashes, in arrays: what tells languages apart."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BUCKETS = 1 << 18
"""Hashes of trigrams; two trigrams may share one, which matters little: a language has some ten
thousand."""
MAX_CHARACTERS = 300
"""Characters of a text that are read."""
SMOOTHING, ASSUMED_TRIGRAMS = 0.3, BUCKETS / 8
"""Added to every count (Lidstone), and the different trigrams that a language is taken to have."""

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_WORD = re.compile(r"[^\W\d_]+")
_MIX = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)


class Trigrams(NamedTuple):
    """The trigrams of N texts, G of them in all."""

    bucket: IntArray  # (G,) the hash of each, from 0 to BUCKETS
    text: IntArray  # (G,) from 0 to N
    sizes: IntArray  # (N,) trigrams of each text

    def counts(self, chosen: NDArray[np.bool_] | None = None) -> FloatArray:
        """How often each trigram occurs in the texts that are `chosen` (N,): (BUCKETS,)."""
        buckets = self.bucket if chosen is None else self.bucket[chosen[self.text]]
        return np.bincount(buckets, minlength=BUCKETS).astype(np.float64)

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum over each text (N,) of `values` (G,)."""
        sums = np.bincount(self.text, weights=values, minlength=len(self.sizes))
        return sums.astype(np.float64)


def find_trigrams(texts: Sequence[str]) -> Trigrams:
    """All runs of three letters, lower-cased; other characters divide words."""
    spelled = [f"  {' '.join(_WORD.findall(text[:MAX_CHARACTERS].lower()))} " for text in texts]
    lengths = np.array([len(one) for one in spelled], np.int64)
    codes = np.frombuffer("".join(spelled).encode("utf-32-le", "surrogatepass"), "<u4")
    letters = codes.astype(np.uint64)
    text = np.repeat(np.arange(len(texts)), lengths)
    if len(letters) < 3:
        none = np.zeros(0, np.int64)
        return Trigrams(none, none, np.zeros(len(texts), np.int64))
    mixed = letters[2:] * _MIX[0] + letters[1:-1] * _MIX[1] + letters[:-2] * _MIX[2]
    bucket = (mixed >> np.uint64(40)) % np.uint64(BUCKETS)
    within = text[2:] == text[:-2]
    owner = text[2:][within]
    return Trigrams(
        bucket[within].astype(np.int64), owner, np.bincount(owner, minlength=len(texts))
    )


def log_probability(counts: FloatArray) -> FloatArray:
    """The natural logarithms of the probabilities of trigrams with these counts (BUCKETS,)."""
    logs: FloatArray = np.log((counts + SMOOTHING) / (counts.sum() + SMOOTHING * ASSUMED_TRIGRAMS))
    return logs
