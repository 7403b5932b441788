"""Pairs held out of training, and training pairs that would give them away."""

import heapq
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import NamedTuple

from pydantic import NonNegativeInt

from regard.corpora.cleaning import CHUNK, CleaningReport, Ignored, Leaks
from regard.corpora.pairs import Corpus, Pair, SplitName
from regard.corpora.seen import Seen, hash_texts
from regard.errors import CorpusError
from regard.nouns import GoldAlignment
from regard.settings import Settings
from regard.streams import chunked

LARGEST_SHARE = 0.1
"""Of the corpus, for one split."""
FEWEST_PAIRS = 10
"""In a corpus that can be cut."""
HELD_OUT: tuple[SplitName, SplitName] = ("valid", "test")

_WORDS = re.compile(r"\w+")
_ADVICE = "give validation and test pairs in files of their own, or ask for 0 of them"


class SplitSettings(Settings):
    """How pairs are held out of a corpus that comes without a split for validation or test."""

    valid: NonNegativeInt = 1000
    """Pairs to validate with during training, which cannot do without any."""
    test: NonNegativeInt = 1000
    """Pairs for the test at the end; 0 for none."""
    seed: NonNegativeInt = 1
    """Another number makes another choice."""


class Row(NamedTuple):
    """A pair, and its alignment where the corpus has one."""

    pair: Pair
    gold: GoldAlignment | None


def normalise(text: str) -> str:
    """The text as it is compared: NFKC, case folded, each run of spaces made one."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def without_punctuation(text: str) -> str:
    """The text as it is compared where punctuation says nothing, either."""
    return " ".join(_WORDS.findall(normalise(text))) or normalise(text)


COMPARED: Mapping[Ignored, Callable[[str], str]] = {
    "spacing": normalise,
    "punctuation": without_punctuation,
}
"""What is ignored -> the text as it is then compared."""


def split_corpus(
    corpus: Corpus,
    settings: SplitSettings,
    notes: list[str] | None = None,
    *,
    by: Leaks = "either",
) -> Corpus:
    """The corpus with the splits that it lacks cut from its training pairs.

    Pairs are chosen by a hash of the seed and the normalised source, and by nothing else: the
    order of the files does not matter, and all pairs of a source fall together, so that a split
    may hold a few more than asked for; the very same pair is held only once. Where a tenth of the
    corpus is less than asked for, a split is cut to that size, and `notes` is told. Pairs that
    share a sentence, as `by` says, with a held-out split that the corpus has are not chosen.

    Training pairs are read once by this call, which keeps those held out in memory.
    """
    asked = {"valid": settings.valid, "test": settings.test}
    choices = {
        name: _Choice(asked[name]) for name in HELD_OUT if asked[name] and name not in corpus.splits
    }
    if not choices:
        return corpus
    if "train" not in corpus.splits:
        raise CorpusError(f"{corpus.name}: no training pairs to cut {' and '.join(choices)} from")
    total, known = 0, _given(corpus, by)
    for key, row in _keyed(corpus, settings.seed):
        total += 1
        choice = choices.get(HELD_OUT[key % 2])  # half of all sources may go to either
        if choice is not None and _is_whole(row.pair) and not known(row.pair):
            choice.offer(key, row)
    told = _fit(choices, corpus.name, total)
    if notes is not None:
        notes.extend(told)
    return _with_splits(corpus, choices, settings.seed)


def _given(corpus: Corpus, by: Leaks) -> Callable[[Pair], bool]:
    """Whether a pair shares a sentence with a held-out split that came with the corpus."""
    given = [pair for name in HELD_OUT if name in corpus.splits for pair in corpus.splits[name]()]
    sources = frozenset(normalise(pair.source) for pair in given)
    targets = frozenset(normalise(pair.target) for pair in given if by == "either")

    def shares(pair: Pair) -> bool:
        if not given:
            return False
        return normalise(pair.source) in sources or normalise(pair.target) in targets

    return shares


class _Choice:
    """The rows of the sources with the smallest keys: just enough sources for `size` rows."""

    def __init__(self, size: int) -> None:
        self.size, self.total = size, 0
        self.groups: dict[int, list[Row]] = {}
        self._largest_first: list[int] = []  # a heap of the keys, negated

    def offer(self, key: int, row: Row) -> None:
        """Take the row if its key is small enough.

        A key that is refused or crowded out stays out, because the smaller ones that are enough
        without it only grow more. So each group that is left holds all rows of its source.
        """
        if key not in self.groups:
            if self.total >= self.size and key > -self._largest_first[0]:
                return
            self.groups[key] = []
            heapq.heappush(self._largest_first, -key)
        if row not in self.groups[key]:
            self.groups[key].append(row)
            self.total += 1
            self.shrink(self.size)

    def shrink(self, size: int) -> None:
        """Leave out what is not needed for `size` rows."""
        self.size = size
        while self.groups and self.total - len(self.groups[-self._largest_first[0]]) >= size:
            self.total -= len(self.groups.pop(-heapq.heappop(self._largest_first)))

    def rows(self) -> list[Row]:
        """What was taken, in the order of the keys."""
        return [row for key in sorted(self.groups) for row in self.groups[key]]


def _fit(choices: dict[SplitName, _Choice], name: str, total: int) -> list[str]:
    """Make the choices fit a corpus of `total` pairs; what a person should know about that."""
    if total < FEWEST_PAIRS:
        raise CorpusError(
            f"{name}: {total} pairs are too few to hold any out, which takes {FEWEST_PAIRS}; "
            f"{_ADVICE}"
        )
    notes, largest = [], int(total * LARGEST_SHARE)
    for split, choice in choices.items():
        asked = choice.size
        choice.shrink(min(asked, largest))
        if not choice.total:
            raise CorpusError(f"{name}: no source sentence was found for {split}; {_ADVICE}")
        if choice.total < asked:
            notes.append(
                f"{name}: {split} holds {choice.total} of {total} pairs; {asked} were asked"
            )
    return notes


def _with_splits(corpus: Corpus, choices: dict[SplitName, _Choice], seed: int) -> Corpus:
    """The corpus with the chosen rows as splits of their own, and no longer in train."""
    chosen = frozenset(key for choice in choices.values() for key in choice.groups)
    rows: dict[SplitName, Callable[[], Iterator[Row]]] = {
        "train": partial(_others, corpus, seed, chosen),
        **{name: partial(iter, choice.rows()) for name, choice in choices.items()},
    }
    if next(rows["train"](), None) is None:
        raise CorpusError(
            f"{corpus.name}: too few different source sentences: none would be left to train on; "
            f"{_ADVICE}"
        )
    pairs = {name: partial(_pairs, some) for name, some in rows.items()}
    golds = {name: partial(_golds, some) for name, some in rows.items() if "train" in corpus.gold}
    return replace(corpus, splits={**corpus.splits, **pairs}, gold={**corpus.gold, **golds})


def _keyed(corpus: Corpus, seed: int) -> Iterator[tuple[int, Row]]:
    """Each training row behind the hash of its source."""
    pairs = corpus.splits["train"]()
    golds = corpus.gold["train"]() if "train" in corpus.gold else repeat(None)
    rows = (Row(*row) for row in zip(pairs, golds, strict="train" in corpus.gold))
    for chunk in chunked(rows, CHUNK):
        keys = hash_texts((normalise(row.pair.source) for row in chunk), seed=seed)
        yield from zip(keys.tolist(), chunk, strict=True)


def _others(corpus: Corpus, seed: int, chosen: frozenset[int]) -> Iterator[Row]:
    for key, row in _keyed(corpus, seed):
        if key not in chosen or not _is_whole(row.pair):
            yield row


def _is_whole(pair: Pair) -> bool:
    """Whether both sides say something; what does not is left for cleaning to count."""
    return bool(pair.source.strip() and pair.target.strip())


def _pairs(rows: Callable[[], Iterator[Row]]) -> Iterator[Pair]:
    return (row.pair for row in rows())


def _golds(rows: Callable[[], Iterator[Row]]) -> Iterator[GoldAlignment]:
    return (row.gold for row in rows() if row.gold is not None)


def without_leaks(
    pairs: Iterable[Pair],
    held_out: Iterable[Pair],
    report: CleaningReport,
    by: Leaks = "either",
    ignored: Ignored = "spacing",
) -> Iterator[Pair]:
    """The pairs whose source, or whose source and target, normalised, no pair held out has."""
    sides, compared = (Seen(), Seen()), COMPARED[ignored]
    for chunk in chunked(held_out, CHUNK):
        for seen, texts in zip(sides, zip(*chunk, strict=True), strict=True):
            seen.add_new(hash_texts(map(compared, texts)))
    for chunk in chunked(pairs, CHUNK):
        report.came["leak check"] += len(chunk)
        sources, targets = (
            seen.holds(hash_texts(map(compared, texts)))
            for seen, texts in zip(sides, zip(*chunk, strict=True), strict=True)
        )
        leaks = sources | targets if by == "either" else sources
        for pair, is_leak in zip(chunk, leaks.tolist(), strict=True):
            if is_leak:
                report.drop("in valid or test", pair)
            else:
                yield pair
