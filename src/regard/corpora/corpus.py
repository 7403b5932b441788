"""What a corpus is to the rest of the package."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from regard.corpora.readers.read_report import ReadReport
from regard.types import GoldAlignment

SplitName = Literal["train", "valid", "test"]


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class CorpusPart(NamedTuple):
    """One of several files that training pairs are read from."""

    name: str
    weight: float
    """How often each of its pairs is in the training set, on average."""
    read: Callable[[], Iterator[Pair]]


UNDETERMINED = "und"
"""The code (ISO 639) of a language that was not named."""


@dataclass(frozen=True)
class Corpus:
    """Pairs in up to three splits; each may be read again and again, and is never held whole."""

    name: str
    languages: tuple[str, str]
    """ISO 639 codes of source and target, or "und" where the text is of no language."""
    splits: Mapping[SplitName, Callable[[], Iterator[Pair]]]
    """A call starts reading at the first pair. A split that is missing is to be cut from train."""
    gold: Mapping[SplitName, Callable[[], Iterator[GoldAlignment]]] = field(default_factory=dict)
    """Gold alignments, one for each pair of the split, where the corpus has them."""
    origin: str = ""
    """Where it comes from and under which licence, for the model's card."""
    parts: tuple[CorpusPart, ...] = ()
    """What the training pairs are read from, where that is several files or a weighted one; `train`
    has the pairs of all of them in order, each once."""
    read_report: ReadReport = field(default_factory=ReadReport)
    """What the last reading of the files skipped or understood by itself."""
