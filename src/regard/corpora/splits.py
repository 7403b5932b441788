"""Held-out splits, and the removal of training pairs that share their sentences."""

import heapq
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from regard.corpora.cleaning.pair_filters import CHUNK, CleaningReport, IgnoredDifference, LeakRule
from regard.corpora.corpus import AlignedPair, Corpus, Pair, SplitName, read_gold_of, read_pairs_of
from regard.corpora.dedup import Hashes, HashSet, hash_texts
from regard.errors import CorpusError
from regard.iterate import chunked
from regard.settings import Settings

MAX_HELD_OUT_SHARE = 0.1  # of the corpus, for each split
MIN_PAIRS_TO_SPLIT = 10  # in a corpus that pairs are held out of
HELD_OUT: tuple[SplitName, SplitName] = ("valid", "test")

_WORDS = re.compile(r"\w+")
_ADVICE = "give validation and test pairs in separate files, or ask for 0 of them"


class SplitSettings(Settings):
    """How pairs are held out of a corpus that has no validation or test split."""

    valid: NonNegativeInt = 1000
    """Pairs to validate with during training; at least one is needed."""
    test: NonNegativeInt = 1000
    """Pairs for the test at the end; 0 for none."""
    seed: NonNegativeInt = 1
    """The seed of the choice: another number holds out other pairs."""


def comparison_key(text: str) -> str:
    """The form in which texts are compared: NFKC, case-folded, single spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def punctuationless_key(text: str) -> str:
    """The same without punctuation."""
    return " ".join(_WORDS.findall(comparison_key(text))) or comparison_key(text)


def split_corpus(
    corpus: Corpus,
    settings: SplitSettings,
    notes: list[str] | None = None,
    *,
    by: LeakRule = "either",
) -> Corpus:
    """The corpus with its missing splits taken from its training pairs, at most a tenth for each.

    Pairs are chosen by a hash of the seed and the normalised source: the order of files does not
    matter, and all pairs of a source stay together, so that a split may be a little larger. Pairs
    that share a sentence, as `by` says, with a given held-out split are not chosen.
    """
    choices = {
        name: _Selection(asked)
        for name, asked in zip(HELD_OUT, (settings.valid, settings.test), strict=True)
        if asked and name not in corpus.splits
    }
    if not choices:
        return corpus
    if "train" not in corpus.splits:
        raise CorpusError(f"{corpus.name}: no training pairs to cut {' and '.join(choices)} from")
    given = LeakIndex(
        pair for name in HELD_OUT if name in corpus.splits for pair in corpus.splits[name]()
    )
    total = 0
    for chunk in chunked(_hashed_rows(corpus, settings.seed), CHUNK):
        total += len(chunk)
        leaks = given.leaks([row.pair for _, row in chunk], by)
        for (key, row), is_leak in zip(chunk, leaks.tolist(), strict=True):
            choice = choices.get(HELD_OUT[key % 2])  # each split is chosen from half of the sources
            if choice is not None and _is_nonempty(row.pair) and not is_leak:
                choice.offer(key, row)
    messages = _limit_sizes(choices, corpus.name, total)
    if notes is not None:
        notes += messages
    return _with_splits(corpus, choices, settings.seed)


class LeakIndex:
    """Hashes of the sources and targets of held-out pairs, normalised by `key`."""

    def __init__(
        self, held_out: Iterable[Pair], key: Callable[[str], str] = comparison_key
    ) -> None:
        self._sides, self._key = (HashSet(), HashSet()), key
        for chunk in chunked(held_out, CHUNK):
            for side, hashes in zip(self._sides, self._hashes(chunk), strict=True):
                side.add_new(hashes)

    def _hashes(self, pairs: Sequence[Pair]) -> list[Hashes]:
        return [hash_texts(self._key(pair[side]) for pair in pairs) for side in (0, 1)]

    def shared(self, pairs: Sequence[Pair]) -> NDArray[np.bool_]:
        """Which sources and targets of N pairs are held out: (2, N)."""
        if not len(self._sides[0]):
            return np.zeros((2, len(pairs)), np.bool_)
        sides = zip(self._sides, self._hashes(pairs), strict=True)
        return np.stack([side.contains(hashes) for side, hashes in sides])

    def leaks(self, pairs: Sequence[Pair], by: LeakRule) -> NDArray[np.bool_]:
        """Which of N pairs share a sentence with held-out pairs: (N,)."""
        shared = self.shared(pairs)
        return np.logical_or(*shared) if by == "either" else np.asarray(shared[0])


class _Selection:
    """The rows of the sources with the smallest keys, enough of them for `size` rows."""

    def __init__(self, size: int) -> None:
        self.size, self.total = size, 0
        self.groups: dict[int, list[AlignedPair]] = {}
        self._largest_first: list[int] = []  # a heap of the keys, negated

    def offer(self, key: int, row: AlignedPair) -> None:
        """Add the row if its key is small enough; a key once rejected never returns."""
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
        """Remove the largest keys, which are not needed for `size` rows."""
        self.size = size
        while self.groups and self.total - len(self.groups[-self._largest_first[0]]) >= size:
            self.total -= len(self.groups.pop(-heapq.heappop(self._largest_first)))

    def rows(self) -> list[AlignedPair]:
        """All rows, in the order of the keys."""
        return [row for key in sorted(self.groups) for row in self.groups[key]]


def _limit_sizes(choices: dict[SplitName, _Selection], name: str, total: int) -> list[str]:
    """Limit the choices by the size of the corpus; returns notes about it."""
    if total < MIN_PAIRS_TO_SPLIT:
        raise CorpusError(
            f"{name}: {total} pairs are too few to hold any out, which takes {MIN_PAIRS_TO_SPLIT}; "
            f"{_ADVICE}"
        )
    notes, largest = [], int(total * MAX_HELD_OUT_SHARE)
    for split, choice in choices.items():
        asked = choice.size
        choice.shrink(min(asked, largest))
        if not choice.total:
            raise CorpusError(f"{name}: no source sentence was found for {split}; {_ADVICE}")
        if choice.total < asked:
            notes.append(
                f"{name}: {split} holds {choice.total:,} of {total:,} pairs instead of {asked:,}"
            )
    return notes


def _with_splits(corpus: Corpus, choices: dict[SplitName, _Selection], seed: int) -> Corpus:
    """The corpus with the chosen rows as splits, removed from train."""
    chosen = frozenset(key for choice in choices.values() for key in choice.groups)
    rows: dict[SplitName, Callable[[], Iterator[AlignedPair]]] = {
        "train": partial(_remaining_rows, corpus, seed, chosen),
        **{name: partial(iter, choice.rows()) for name, choice in choices.items()},
    }
    if next(rows["train"](), None) is None:
        raise CorpusError(
            f"{corpus.name}: too few different source sentences: none would be left to train on; "
            f"{_ADVICE}"
        )
    pairs = {name: partial(read_pairs_of, some) for name, some in rows.items()}
    aligned = rows if "train" in corpus.gold else {}
    gold = {name: partial(read_gold_of, some) for name, some in aligned.items()}
    return replace(corpus, splits={**corpus.splits, **pairs}, gold={**corpus.gold, **gold})


def _hashed_rows(corpus: Corpus, seed: int) -> Iterator[tuple[int, AlignedPair]]:
    """Each training row with the hash of its source."""
    pairs = corpus.splits["train"]()
    golds = corpus.gold["train"]() if "train" in corpus.gold else repeat(None)
    rows = (AlignedPair(*row) for row in zip(pairs, golds, strict="train" in corpus.gold))
    for chunk in chunked(rows, CHUNK):
        keys = hash_texts((comparison_key(row.pair.source) for row in chunk), seed=seed)
        yield from zip(keys.tolist(), chunk, strict=True)


def _remaining_rows(corpus: Corpus, seed: int, chosen: frozenset[int]) -> Iterator[AlignedPair]:
    for key, row in _hashed_rows(corpus, seed):
        if key not in chosen or not _is_nonempty(row.pair):
            yield row


def _is_nonempty(pair: Pair) -> bool:
    """Whether both sides have text; cleaning counts the other pairs."""
    return bool(pair.source.strip() and pair.target.strip())


def drop_leaks(
    pairs: Iterable[Pair],
    held_out: Iterable[Pair],
    report: CleaningReport,
    by: LeakRule = "either",
    ignored: IgnoredDifference = "spacing",
) -> Iterator[Pair]:
    """The pairs that share no sentence with held-out pairs, as defined by `by`."""
    index = LeakIndex(held_out, comparison_key if ignored == "spacing" else punctuationless_key)
    for chunk in chunked(pairs, CHUNK):
        report.received["leak check"] += len(chunk)
        yield from report.drop_where(index.leaks(chunk, by), "in valid or test", chunk)
