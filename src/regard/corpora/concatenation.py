"""Short training pairs -> longer ones: neighbours joined, so that a model can read both."""

from collections.abc import Iterable, Iterator
from itertools import islice
from random import Random

from regard.corpora.corpus import Pair

SEED = 1
"""How many are joined is drawn; the same pairs are always joined in the same way."""


def concatenate_pairs(pairs: Iterable[Pair], max_pairs: int) -> Iterator[Pair]:
    """The same text in fewer pairs: each is made of 1 to `most` neighbours, any number as likely.

    A model that saw none but short sentences is lost in long ones (Kondo et al. 2021, "Sentence
    Concatenation Approach to Data Augmentation for Neural Machine Translation").
    """
    random, stream = Random(SEED), iter(pairs)
    while group := list(islice(stream, random.randint(1, max_pairs))):
        yield Pair(*(" ".join(side) for side in zip(*group, strict=True)))
