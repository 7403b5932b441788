"""GLEU, which scores a single sentence as BLEU scores a text (Wu et al. 2016, section 5)."""

from collections import Counter
from collections.abc import Hashable, Sequence

MAX_NGRAM = 4
"""Words of the longest n-grams."""


def sentence_gleu(hypothesis: Sequence[Hashable], reference: Sequence[Hashable]) -> float:
    """From 0 to 1: the smaller of precision and recall over all n-grams of 1 to 4 words.

    An n-gram matches as often as it stands in both. Two empty sentences agree.
    """
    hypothesis_ngrams, reference_ngrams = _ngrams(hypothesis), _ngrams(reference)
    num_ngrams = max(hypothesis_ngrams.total(), reference_ngrams.total())
    return (hypothesis_ngrams & reference_ngrams).total() / num_ngrams if num_ngrams else 1.0


def _ngrams(words: Sequence[Hashable]) -> Counter[tuple[Hashable, ...]]:
    """How often each n-gram occurs."""
    words = tuple(words)
    return Counter(
        words[first : first + length]
        for length in range(1, MAX_NGRAM + 1)
        for first in range(len(words) - length + 1)
    )
