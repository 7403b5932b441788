"""BPE-dropout of many words at once, in arrays.

SentencePiece samples too, but mixes something of the process into its seed, so that a run that is
resumed in a new process would see other text than one that was never stopped; and it is slower.

Chance changes few words: at 0.1, two words of three come out as they always do, and the others
begin to differ late. So it is drawn first which merge of a word is the first to be left out. What
stands there before it is looked up, and only from there on are words merged step by step, all of
them together.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.text.ragged import IntArray, Ragged, ragged_arange, row_starts

BoolArray = NDArray[np.bool_]

NO_MERGE = np.iinfo(np.int64).max
"""The key of two symbols that make no piece; all others are smaller."""
_BITS = 32  # the lower half of a number that holds two: of a key, the place of its merge
_POSITION_MASK = (1 << _BITS) - 1


class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020, algorithm 1)."""

    def __init__(
        self, ids: Mapping[str, int], scores: Mapping[str, float], size: int, probability: float
    ) -> None:
        """`ids` and `scores` are those of the pieces that spell text, `size` is of all ids.

        `probability` is the share of the possible merges left out at each step.
        """
        self._merge_table, self._probability = _MergeTable(ids, scores), probability
        self._history = _build_history(self._merge_table, ids, size)
        self._starts_word = np.zeros(size, np.bool_)
        self._starts_word[[i for piece, i in ids.items() if piece.startswith(" ")]] = True

    def cut(self, texts: Ragged, seed: int) -> Ragged:
        """The same texts cut at random, where `texts` are those that are cut without chance."""
        rng = np.random.default_rng(seed)
        ids = texts.ids.astype(np.int64)  # (N,)
        row = np.repeat(np.arange(len(texts.counts)), texts.counts)  # (N,)
        starts = np.flatnonzero(self._starts_word[ids] | _run_start_mask(row))  # (W,)
        word = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ids)))  # (N,)
        done = self._history.merges[ids]  # (N,)
        kept = rng.geometric(self._probability, len(starts)) - 1  # (W,) till one is left out
        changed = (kept < np.bincount(word, done))[word]  # (N,)
        done[changed] = self._history.count_done(ids[changed], word[changed], kept)
        symbols, origin = self._history.states(ids, done)  # (M,), (M,)
        linked = _LinkedSymbols(self._merge_table, symbols, word[origin], changed[origin])
        first_dropped = linked.best_candidates()
        while len(linked.candidates):
            dropped = rng.random(len(linked.candidates), np.float32) < self._probability
            dropped[first_dropped] = True
            first_dropped = first_dropped[:0]
            linked.merge(dropped)
        counts = np.bincount(row[origin[linked.alive]], minlength=len(texts.counts))
        return Ragged(linked.symbols[linked.alive].astype(np.int32), counts)


class _MergeTable:
    """Which two pieces make a third."""

    def __init__(self, ids: Mapping[str, int], scores: Mapping[str, float]) -> None:
        order = sorted(ids, key=scores.__getitem__, reverse=True)
        self.merged = np.array([ids[piece] for piece in order])
        """Ids by rank: what was learned first has rank 0."""
        found = sorted(
            (ids[piece[:cut]] << _BITS | ids[piece[cut:]], rank)
            for rank, piece in enumerate(order)
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        )
        self._merge_table, self._ranks = np.array([*found, (NO_MERGE, -1)], np.int64).T.copy()

    def ranks(self, left: IntArray, right: IntArray) -> IntArray:
        """The rank (N,) of what each two ids make together, or -1."""
        pairs = left << _BITS | right
        found = np.searchsorted(self._merge_table, pairs)
        return np.where(self._merge_table[found] == pairs, self._ranks[found], -1)


class _LinkedSymbols:
    """Words as chains of symbols, in which neighbours are merged."""

    def __init__(
        self, pairs: _MergeTable, symbols: IntArray, word: IntArray, mergeable: BoolArray
    ) -> None:
        """`symbols`, the number of the `word` that each is in, and whether it may merge: (M,)."""
        count = len(symbols)
        self._merge_table, self._word = pairs, np.append(word, -1)
        self.symbols, self.alive = symbols, np.ones(count, np.bool_)
        self._after, self._before = np.arange(1, count + 1), np.arange(-1, count)
        self._keys = np.full(count, NO_MERGE)
        """By them merges are chosen: the least of a word's, which is the best one's or leftmost."""
        self.candidates = np.flatnonzero(mergeable[:-1] & (word[:-1] == word[1:]))
        """The symbols (P,) that may be merged with the next, of all words that are not done."""
        self._set_keys(self.candidates)

    def best_candidates(self) -> IntArray:
        """The numbers, among `places`, of the merges that come next without chance."""
        best = _run_min(self._keys[self.candidates], self._word_runs().starts)
        candidates: IntArray = best[best != NO_MERGE] & _POSITION_MASK
        return np.searchsorted(self.candidates, candidates)

    def merge(self, dropped: BoolArray | None = None) -> IntArray:
        """Make the best merge of each word that is not `dropped` (P,); answer with their keys.

        A word that has none is done.
        """
        keys = self._keys[self.candidates]  # (P,)
        if dropped is not None:
            keys[dropped] = NO_MERGE
        starts, counts = self._word_runs()
        best = _run_min(keys, starts)
        active: BoolArray = best != NO_MERGE
        best = best[active]
        at = best & _POSITION_MASK
        removed = self._after[at]
        after = self._after[removed]
        self.symbols[at] = self._merge_table.merged[best >> _BITS]
        self._after[at], self._before[after] = after, at
        self.alive[removed] = False
        self.candidates = self.candidates[np.repeat(active, counts) & self.alive[self.candidates]]
        before = self._before[at]
        before = before[self._word[before] == self._word[at]]
        self._set_keys(np.concatenate((at, before)))
        return best

    def _word_runs(self) -> "_Runs":
        return _runs(self._word[self.candidates])

    def _set_keys(self, candidates: IntArray) -> None:
        after = self._after[candidates]
        ranks = self._merge_table.ranks(
            self.symbols[candidates], self.symbols.take(after, mode="clip")
        )
        none = (ranks < 0) | (self._word[after] != self._word[candidates])
        self._keys[candidates] = np.where(none, NO_MERGE, ranks << _BITS | candidates)


class _MergeHistory(NamedTuple):
    """How the letters of each piece come together without chance."""

    merges: IntArray  # (V,) how many there are; 0 for what is no text
    symbols: IntArray
    """All letters of a piece, then what is left after its first merge, after two, …, itself."""
    first: IntArray  # (V,) where those of each piece begin
    max_ranks: IntArray
    """The merges of a piece in turn: the worst rank so far, which each has to wait for."""
    first_max_rank: IntArray  # (V,) where those of each piece begin

    def states(self, ids: IntArray, done: IntArray) -> tuple[IntArray, IntArray]:
        """The symbols (M,) of pieces after so many merges each, and the number of their piece."""
        letters = self.merges[ids] + 1
        counts = letters - done
        first = self.first[ids] + done * letters - done * (done - 1) // 2
        return self.symbols[ragged_arange(first, counts)], np.repeat(np.arange(len(ids)), counts)

    def count_done(self, ids: IntArray, word: IntArray, kept: IntArray) -> IntArray:
        """Of each piece how many merges are among the first `kept` ones of its word.

        In a word each merge waits for its turn: better ones in other pieces come first, and of
        equals the one on the left.
        """
        merges = self.merges[ids]
        max_ranks = self.max_ranks[ragged_arange(self.first_max_rank[ids], merges)]
        piece = np.repeat(np.arange(len(ids)), merges)
        words = word[piece]
        order = np.argsort(words << _BITS | max_ranks, kind="stable")
        turn = np.arange(len(words)) - np.repeat(*_runs(words))
        return np.bincount(piece[order[turn < kept[words]]], minlength=len(ids))


def _build_history(pairs: _MergeTable, ids: Mapping[str, int], size: int) -> _MergeHistory:
    """The paths of all `size` ids, found by merging the letters of all pieces at once."""
    spelled: list[list[int]] = [[i] for i in range(size)]
    for piece, i in ids.items():
        spelled[i] = [ids[letter] for letter in piece] if ids.keys() >= {*piece} else [i]
    letters = np.array([len(symbols) for symbols in spelled])  # (V,)
    sums = letters * (letters + 1) // 2  # of all its states: letters, letters - 1, …, 1
    first, first_max_rank = row_starts(sums), row_starts(letters - 1)
    symbols, max_ranks = (np.zeros(total.sum(), np.int64) for total in (sums, letters - 1))
    word = np.repeat(np.arange(size), letters)
    linked = _LinkedSymbols(pairs, np.concatenate(spelled), word, np.ones(len(word), np.bool_))
    worst, merges, active = np.zeros(size, np.int64), 0, np.arange(size)
    while len(active):
        lives = np.flatnonzero(linked.alive & np.isin(word, active))
        starts = first[active] + merges * letters[active] - merges * (merges - 1) // 2
        symbols[ragged_arange(starts, letters[active] - merges)] = linked.symbols[lives]
        best = linked.merge()
        active = word[best & _POSITION_MASK]
        worst[active] = np.maximum(worst[active], best >> _BITS)
        max_ranks[first_max_rank[active] + merges] = worst[active]
        merges += 1
    whole = np.bincount(word[linked.alive], minlength=size) == 1
    letters[~whole], symbols[first[~whole]] = 1, np.flatnonzero(~whole)  # no text is cut so
    return _MergeHistory(letters - 1, symbols, first, max_ranks, first_max_rank)


class _Runs(NamedTuple):
    """Stretches of equal numbers."""

    starts: IntArray
    counts: IntArray


def _runs(numbers: IntArray) -> _Runs:
    starts = np.flatnonzero(_run_start_mask(numbers))
    return _Runs(starts, np.diff(starts, append=len(numbers)))


def _run_start_mask(numbers: IntArray) -> BoolArray:
    """Whether each number (N,) is another than that before it; the first one is."""
    changes = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=changes[1:])
    return changes


def _run_min(keys: IntArray, starts: IntArray) -> IntArray:
    """The least key of each stretch that begins at one of `starts`."""
    least: IntArray = np.minimum.reduceat(keys, starts) if len(starts) else starts
    return least
