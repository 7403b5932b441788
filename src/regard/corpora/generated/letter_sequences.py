"""Sequences of letters to copy, reverse and sort: sanity checks of a model."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from regard.corpora.corpus import AlignedPair, Corpus, Pair
from regard.corpora.generated.generator import GeneratedSettings, generated_corpus
from regard.types import GoldAlignment

LETTERS = "abcdefghijklmnopqrstuvwxyz"
MAX_LETTERS = 12

Permutation = Callable[[Sequence[str]], Sequence[int]]
"""For each position of the target, the position in the source that its letter comes from."""

PERMUTATIONS: dict[str, Permutation] = {
    "copy": lambda letters: range(len(letters)),
    "reverse": lambda letters: range(len(letters))[::-1],
    "sort": lambda letters: sorted(range(len(letters)), key=letters.__getitem__),  # stable
}


def sequence_corpus(name: str, settings: GeneratedSettings) -> Corpus:
    """The corpus "copy", "reverse" or "sort": 1 to 12 letters between spaces, "c a b"."""
    return generated_corpus(name, ("und", "und"), partial(_draw, PERMUTATIONS[name]), settings)


def _draw(order: Permutation, random: Random) -> AlignedPair:
    letters = [random.choice(LETTERS) for _ in range(random.randint(1, MAX_LETTERS))]
    origins = order(letters)
    links = frozenset((origin, place) for place, origin in enumerate(origins))
    target = " ".join(letters[origin] for origin in origins)
    return AlignedPair(Pair(" ".join(letters), target), GoldAlignment(links, links))
