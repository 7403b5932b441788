"""How varied answers are, and the commonest answer of a corpus."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from regard.errors import CorpusError

Words = Callable[[str], Sequence[str]]  # splits a text into words


def distinct(texts: Iterable[str], n: int, words: Words = str.split) -> float:
    """distinct-n: the number of distinct n-grams over that of all n-grams (Li et al. 2016).

    It falls with the number of texts, so compare only sets of the same size. Without any n-gram it
    is 0.
    """
    if n < 1:
        raise ValueError(f"an n-gram has at least one word, got {n=}")
    counts: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        cut = words(text)
        counts.update(tuple(cut[first : first + n]) for first in range(len(cut) - n + 1))
    return len(counts) / counts.total() if counts else 0.0


def commonest(texts: Iterable[str]) -> str:
    """The most frequent text; of equally frequent ones the first."""
    counts = Counter(texts)
    if not counts:
        raise CorpusError("there is no commonest answer: the training split has no pairs")
    return counts.most_common(1)[0][0]
