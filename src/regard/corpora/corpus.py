"""The corpus, as the rest of the package sees it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Annotated, Literal, NamedTuple

from pydantic import BeforeValidator

from regard.types import GoldAlignment

SplitName = Literal["train", "valid", "test"]


def _as_tuple(given: object) -> object:
    return (given,) if isinstance(given, str) else given


Files = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
"""One file, or a list of files that are read in this order."""


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class AlignedPair(NamedTuple):
    """A pair, and its alignment if the corpus has alignments."""

    pair: Pair
    gold: GoldAlignment | None = None


def read_pairs_of(rows: Callable[[], Iterable[AlignedPair]]) -> Iterator[Pair]:
    return (row.pair for row in rows())


def read_gold_of(rows: Callable[[], Iterable[AlignedPair]]) -> Iterator[GoldAlignment]:
    return (row.gold for row in rows() if row.gold is not None)


class CorpusPart(NamedTuple):
    """One of several files that training pairs are read from."""

    name: str
    weight: float  # how often each of its pairs is in the training set, on average
    read: Callable[[], Iterator[Pair]]


UNDETERMINED = "und"  # the code (ISO 639) of a language that was not named


class ReadReport:
    """What readers skipped or assumed; reading a file again resets what was found in it."""

    def __init__(self) -> None:
        self._skipped: dict[tuple[str, str], tuple[int, str]] = {}  # number and first place
        self._notes: dict[str, list[str]] = {}

    def start_file(self, file: str) -> None:
        """Reset what an earlier reading of `file` found."""
        self._notes[file] = []
        self._skipped = {key: found for key, found in self._skipped.items() if key[0] != file}

    def skip(self, file: str, kind: str, place: str) -> None:
        count, first = self._skipped.get((file, kind), (0, place))
        self._skipped[file, kind] = count + 1, first

    def add_note(self, file: str, text: str) -> None:
        self._notes.setdefault(file, []).append(f"{file}: {text}")

    @contextmanager
    def told_to(self, note: Callable[[str], None]) -> Iterator[None]:
        """Pass all remarks to `note` when the block ends, even with an error."""
        try:
            yield
        finally:
            for message in self.messages():
                note(message)

    def messages(self) -> list[str]:
        """All remarks, without full stops."""
        skipped = [
            f"{file}: skipped {count:,} {kind}, the first at {first}"
            for (file, kind), (count, first) in self._skipped.items()
        ]
        return [note for notes in self._notes.values() for note in notes] + skipped


@dataclass(frozen=True)
class Corpus:
    """Pairs in up to three splits; each can be read repeatedly and is never wholly in memory."""

    name: str
    languages: tuple[str, str]
    """ISO 639 codes of source and target; "und" if the language is undetermined."""
    splits: Mapping[SplitName, Callable[[], Iterator[Pair]]]
    """A call starts reading at the first pair. A missing split has to be cut from train."""
    gold: Mapping[SplitName, Callable[[], Iterator[GoldAlignment]]] = field(default_factory=dict)
    """Gold alignments, one for each pair of the split, where the corpus has them."""
    origin: str = ""  # where it comes from and under which licence, for the model's card
    parts: tuple[CorpusPart, ...] = ()
    """The files of the training pairs, if several or weighted; `train` has each pair once."""
    read_report: ReadReport = field(default_factory=ReadReport)
