"""Which words translate which, learned from pairs (Brown et al. 1993, model 1)."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.text.word_units import compared_words

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

MAX_WORDS = 32
"""Words of a text that are looked at, from its beginning."""
MIN_TEXTS = 2
"""Texts that a word is in, lest nothing can be learned about it."""
EM_ROUNDS = 4
COUNT_PRIOR = 2.0
"""Added to the count of a word: what was seen once or twice is not believed whole."""
FLOOR = 1e-4
MIN_GAIN, MAX_GAIN = -1.0, 6.0
"""What a word is taken to gain at the least and at the most."""


class RaggedWords(NamedTuple):
    """The numbers of the words of N texts, one after the other."""

    words: IntArray  # (W,) from 1; those that are too rare are left out
    starts: IntArray  # (N + 1,)

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.starts)

    @property
    def owner(self) -> IntArray:
        """The text of each word (W,)."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def take(self, places: IntArray) -> "RaggedWords":
        """Some of the texts, in this order."""
        sizes = self.sizes[places]
        starts = np.append(0, np.cumsum(sizes))
        first = np.repeat(self.starts[places] - starts[:-1], sizes)
        return RaggedWords(self.words[np.arange(starts[-1]) + first], starts)

    def keep(self, chosen: NDArray[np.bool_]) -> "RaggedWords":
        """The words that are `chosen` (W,)."""
        sizes = np.bincount(self.owner[chosen], minlength=len(self.sizes))
        return RaggedWords(self.words[chosen], np.append(0, np.cumsum(sizes)))


class IndexedTexts(NamedTuple):
    """Texts as numbers of words, and how often each word occurs among all: (V,)."""

    texts: RaggedWords
    share: FloatArray


def index_words(texts: Sequence[str]) -> IndexedTexts:
    """The different words of each text, numbered by how many texts have them."""
    rows = [list(dict.fromkeys(compared_words(text)))[:MAX_WORDS] for text in texts]
    counts = Counter(word for row in rows for word in row)
    frequent = [(word, count) for word, count in counts.most_common() if count >= MIN_TEXTS]
    number = {word: place for place, (word, _) in enumerate(frequent, 1)}
    kept = [[number[word] for word in row if word in number] for row in rows]
    starts = np.append(0, np.cumsum([len(row) for row in kept])).astype(np.int64)
    share = np.array([0.0, *(count for _, count in frequent)])
    words = np.array([word for row in kept for word in row], np.int64)
    return IndexedTexts(RaggedWords(words, starts), share / max(1.0, share.sum()))


class _WordPairs(NamedTuple):
    """Every word of each text beside every word of its partner: (L,) each."""

    word: IntArray  # the place of the word in its Ragged
    given: IntArray  # the partner's word, by number


def _word_pairs(texts: RaggedWords, partners: RaggedWords) -> _WordPairs:
    sizes = partners.sizes[texts.owner]  # (W,) partners of each word
    word = np.repeat(np.arange(len(texts.words)), sizes)
    first = np.repeat(
        partners.starts[:-1][texts.owner] - np.append(0, np.cumsum(sizes))[:-1], sizes
    )
    return _WordPairs(word, partners.words[np.arange(len(word)) + first])


class IbmModel1:
    """The probability of a word given a word of the partner, after some rounds of EM."""

    def __init__(self, texts: RaggedWords, partners: RaggedWords, vocabulary: int) -> None:
        links, self._vocabulary = _word_pairs(texts, partners), vocabulary
        keys = links.given * vocabulary + texts.words[links.word]
        self._keys, which = np.unique(keys, return_inverse=True)
        given, probability = self._keys // vocabulary, np.ones(len(self._keys))
        for _ in range(EM_ROUNDS):
            likely = probability[which]
            sums = np.bincount(links.word, weights=likely, minlength=len(texts.words))
            counts = np.bincount(which, weights=likely / sums[links.word])
            probability = counts / (np.bincount(given, weights=counts)[given] + COUNT_PRIOR)
        self._probability = probability

    def log_gains(self, texts: RaggedWords, partners: RaggedWords, share: FloatArray) -> FloatArray:
        """How much likelier the best partner makes each word, as a logarithm: (W,)."""
        links = _word_pairs(texts, partners)
        best = np.zeros(len(texts.words))
        if len(self._keys):
            keys = links.given * self._vocabulary + texts.words[links.word]
            places = np.searchsorted(self._keys, keys).clip(max=len(self._keys) - 1)
            found = np.where(self._keys[places] == keys, self._probability[places], 0.0)
            np.maximum.at(best, links.word, found)
        gain: FloatArray = np.log((best + FLOOR) / (share[texts.words] + FLOOR))
        return gain.clip(MIN_GAIN, MAX_GAIN)
