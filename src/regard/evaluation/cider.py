"""CIDEr-D: how much a caption agrees with most people's captions of the same picture.

Vedantam, Zitnick and Parikh (2015), section 3, with the changes of CIDEr-D as the evaluation of
COCO captions computes it: repeated n-grams count no more often than in the reference, and captions
of a different length are penalised. N-grams that are in few pictures' captions weigh most.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MAX_NGRAM = 4
SIGMA = 6.0  # of the Gaussian over differences in length
SCALE = 10.0

Ngram = tuple[str, ...]
Words = Sequence[str]


class _WeightedNgrams(NamedTuple):
    """A caption as a vector of n-grams for each n."""

    weights: list[dict[Ngram, float]]  # of each n: how often an n-gram is there times its idf
    norms: list[float]
    length: int  # pairs of neighbouring words, as the evaluation of COCO counts it


def cider_scores(hypotheses: Sequence[Words], references: Sequence[Sequence[Words]]) -> list[float]:
    """CIDEr-D of each caption, from 0 to 10, with the document frequencies of all references."""
    counted = [[_count_ngrams(words) for words in texts] for texts in references]
    frequencies = Counter(ngram for counts in counted for ngram in set().union(*counts))
    log_pictures = math.log(len(references)) if references else 0.0
    scores = []
    for words, reference_counts in zip(hypotheses, counted, strict=True):
        hypothesis = _weigh(_count_ngrams(words), frequencies, log_pictures)
        similarities = [
            _similarity(hypothesis, _weigh(counts, frequencies, log_pictures))
            for counts in reference_counts
        ]
        scores.append(SCALE * sum(similarities) / len(similarities))
    return scores


def _count_ngrams(words: Words) -> Counter[Ngram]:
    return Counter(
        tuple(words[first : first + size])
        for size in range(1, MAX_NGRAM + 1)
        for first in range(len(words) - size + 1)
    )


def _weigh(
    counts: Mapping[Ngram, int], frequencies: Mapping[Ngram, int], log_pictures: float
) -> _WeightedNgrams:
    weights: list[dict[Ngram, float]] = [{} for _ in range(MAX_NGRAM)]
    for ngram, count in counts.items():
        idf = log_pictures - math.log(max(1, frequencies.get(ngram, 0)))
        weights[len(ngram) - 1][ngram] = count * idf
    norms = [math.sqrt(sum(weight**2 for weight in own.values())) for own in weights]
    pairs = sum(count for ngram, count in counts.items() if len(ngram) == 2)
    return _WeightedNgrams(weights, norms, pairs)


def _similarity(hypothesis: _WeightedNgrams, reference: _WeightedNgrams) -> float:
    """The cosine of the clipped vectors, mean over n, times the penalty for a different length."""
    cosines = []
    for n in range(MAX_NGRAM):
        ours, theirs = hypothesis.weights[n], reference.weights[n]
        product = sum(
            min(weight, theirs[ngram]) * theirs[ngram]
            for ngram, weight in ours.items()
            if ngram in theirs
        )
        norm = hypothesis.norms[n] * reference.norms[n]
        cosines.append(product / norm if norm else 0.0)
    penalty = math.exp(-((hypothesis.length - reference.length) ** 2) / (2 * SIGMA**2))
    return penalty * sum(cosines) / MAX_NGRAM
