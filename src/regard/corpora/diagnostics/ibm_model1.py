"""Word translation probabilities learned from pairs: IBM model 1 (Brown et al. 1993)."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.text.ragged import IntArray, ragged_arange, row_starts
from regard.text.word_units import compared_words

FloatArray = NDArray[np.float64]

MAX_WORDS = 32  # of each text that are used, from its beginning
MIN_TEXTS = 2  # in which a word must occur
EM_ROUNDS = 4
COUNT_PRIOR = 2.0  # added to the count of a word, so that rare events get low probabilities
FLOOR, MIN_GAIN, MAX_GAIN = 1e-4, -1.0, 6.0


class RaggedWords(NamedTuple):
    """The word numbers of N texts, end to end."""

    words: IntArray  # (W,) from 1; rare words are left out
    sizes: IntArray  # (N,)

    @property
    def starts(self) -> IntArray:
        return row_starts(self.sizes)

    @property
    def owner(self) -> IntArray:
        """The text of each word (W,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def position(self) -> IntArray:
        """The index of each word in its text (W,)."""
        return np.arange(len(self.words)) - self.starts[self.owner]

    def take(self, places: IntArray) -> "RaggedWords":
        """Some of the texts, in this order."""
        sizes = self.sizes[places]
        return RaggedWords(self.words[ragged_arange(self.starts[places], sizes)], sizes)

    def keep(self, chosen: NDArray[np.bool_]) -> "RaggedWords":
        """The words that are `chosen` (W,)."""
        sizes = np.bincount(self.owner[chosen], minlength=len(self.sizes))
        return RaggedWords(self.words[chosen], sizes)

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum over each text (N,) of `values` (W,)."""
        return np.bincount(self.owner, weights=values, minlength=len(self.sizes)).astype(np.float64)


class IndexedTexts(NamedTuple):
    """Texts as word numbers, and the relative frequency of each word: (V,)."""

    texts: RaggedWords
    share: FloatArray


def index_words(texts: Sequence[str]) -> IndexedTexts:
    """The distinct words of each text, numbered by how many texts contain them."""
    rows = [list(dict.fromkeys(compared_words(text)))[:MAX_WORDS] for text in texts]
    counts = Counter(word for row in rows for word in row)
    frequent = {word: count for word, count in counts.most_common() if count >= MIN_TEXTS}
    number = {word: place for place, word in enumerate(frequent, 1)}
    kept = [[number[word] for word in row if word in number] for row in rows]
    share = np.array([0.0, *frequent.values()])
    words = np.array([word for row in kept for word in row], np.int64)
    sizes = np.array([len(row) for row in kept], np.int64)
    return IndexedTexts(RaggedWords(words, sizes), share / max(1.0, share.sum()))


def _word_pairs(texts: RaggedWords, partners: RaggedWords) -> tuple[IntArray, IntArray]:
    """Every word of each text with every word of its partner: index and partner's number, (L,)."""
    sizes = partners.sizes[texts.owner]  # (W,) partners of each word
    word = np.repeat(np.arange(len(texts.words)), sizes)
    return word, partners.words[ragged_arange(partners.starts[texts.owner], sizes)]


class IbmModel1:
    """P(word | word of the partner), after some rounds of EM."""

    def __init__(self, texts: RaggedWords, partners: RaggedWords, vocabulary: int) -> None:
        word, given = _word_pairs(texts, partners)
        self._vocabulary = vocabulary
        self._keys, which = np.unique(given * vocabulary + texts.words[word], return_inverse=True)
        givens, self._probability = self._keys // vocabulary, np.ones(len(self._keys))
        for _ in range(EM_ROUNDS):
            likely = self._probability[which]
            sums = np.bincount(word, weights=likely, minlength=len(texts.words))
            counts = np.bincount(which, weights=likely / sums[word])
            totals = np.bincount(givens, weights=counts)
            self._probability = counts / (totals[givens] + COUNT_PRIOR)

    def log_gains(self, texts: RaggedWords, partners: RaggedWords, share: FloatArray) -> FloatArray:
        """Log ratio of each word's probability given its best partner to its `share`: (W,)."""
        word, given = _word_pairs(texts, partners)
        best = np.zeros(len(texts.words))
        if len(self._keys):
            keys = given * self._vocabulary + texts.words[word]
            places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
            known = np.where(self._keys[places] == keys, self._probability[places], 0.0)
            np.maximum.at(best, word, known)
        gain: FloatArray = np.log((best + FLOOR) / (share[texts.words] + FLOOR))
        return gain.clip(MIN_GAIN, MAX_GAIN)
