"""Concatenation of neighbouring training pairs, so that a model learns to read longer ones."""

from collections.abc import Iterable, Iterator
from itertools import islice
from random import Random

from regard.corpora.corpus import Pair

SEED = 1
"""Of the number of pairs that are joined."""


def concatenate_pairs(pairs: Iterable[Pair], max_pairs: int) -> Iterator[Pair]:
    """The same text in fewer pairs: each joins 1 to `max_pairs` neighbours, uniformly drawn.

    A model that is trained on short sentences only fails on long ones (Kondo et al. 2021, "Sentence
    Concatenation Approach to Data Augmentation for Neural Machine Translation").
    """
    random, stream = Random(SEED), iter(pairs)
    while group := list(islice(stream, random.randint(1, max_pairs))):
        yield Pair(*(" ".join(side) for side in zip(*group, strict=True)))
