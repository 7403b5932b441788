"""Random segmentations of training text into subwords: BPE-dropout, and samples of a unigram model.

SentencePiece's own seed depends on the process, so a resumed run would get other segmentations.
"""

import math
import re
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, groupby
from random import Random
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.text.ragged import IntArray, Ragged, flatten, ragged_arange, row_starts
from regard.text.special_tokens import UNK

BoolArray = NDArray[np.bool_]

NO_MERGE = np.iinfo(np.int64).max  # the key of two symbols that form no piece; others are smaller
_BITS = 32  # a key is rank << _BITS | position
_POSITION_MASK = (1 << _BITS) - 1
_WORD_CACHE_SIZE = 1 << 14
_UNKNOWN_PENALTY = 10.0  # as in SentencePiece, below the least likely piece
_WORD = re.compile(" [^ ]{,63}|[^ ]{1,64}")
"""A word with the space before it, or a part of an overlong one."""


class BpeDropout:
    """BPE-dropout (Provilkov et al. 2020, algorithm 1), for all words of a batch at once.

    Most words keep all merges. So for each word the number of merges before its first drop is drawn
    (geometric); the state at that point comes from a table; only the merges after it are simulated.
    """

    def __init__(
        self, ids: Mapping[str, int], scores: Mapping[str, float], size: int, probability: float
    ) -> None:
        """Tables of all pieces, the size of the whole vocabulary, and the probability of dropping
        each possible merge, at each step.
        """
        self._merge_table, self._probability = _MergeTable(ids, scores), probability
        self._history = _build_history(self._merge_table, ids, size)
        self._starts_word = np.zeros(size, np.bool_)
        self._starts_word[[i for piece, i in ids.items() if piece.startswith(" ")]] = True

    def sample(self, texts: Ragged, seed: int) -> Ragged:
        """The same texts with dropout; `texts` are the ids of the deterministic segmentation."""
        rng = np.random.default_rng(seed)
        ids = texts.ids.astype(np.int64)  # (N,)
        row = np.repeat(np.arange(len(texts.counts)), texts.counts)  # (N,)
        starts = np.flatnonzero(self._starts_word[ids] | (np.diff(row, prepend=-1) != 0))  # (W,)
        word = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ids)))  # (N,)
        done = self._history.merges[ids]  # (N,)
        kept = rng.geometric(self._probability, len(starts)) - 1  # (W,) before the first drop
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
    """Which pairs of pieces merge, and the rank of each merge."""

    def __init__(self, ids: Mapping[str, int], scores: Mapping[str, float]) -> None:
        order = sorted(ids, key=scores.__getitem__, reverse=True)
        self.merged = np.array([ids[piece] for piece in order])
        """Ids of merged pieces by rank: the merge that was learned first has rank 0."""
        merges = sorted(
            (ids[piece[:cut]] << _BITS | ids[piece[cut:]], rank)
            for rank, piece in enumerate(order)
            for cut in range(1, len(piece))
            if piece[:cut] in ids and piece[cut:] in ids
        )
        self._keys, self._ranks = np.array([*merges, (NO_MERGE, -1)], np.int64).T.copy()

    def ranks(self, left: IntArray, right: IntArray) -> IntArray:
        """The rank (N,) of the merge of each pair of ids; -1 if they do not merge."""
        pairs = left << _BITS | right
        places = np.searchsorted(self._keys, pairs)
        return np.where(self._keys[places] == pairs, self._ranks[places], -1)


class _LinkedSymbols:
    """Words as linked lists of symbols, in which neighbours are merged."""

    def __init__(
        self, table: _MergeTable, symbols: IntArray, word: IntArray, mergeable: BoolArray
    ) -> None:
        """All of shape (M,): symbols, the index of their word, and whether they may merge."""
        count = len(symbols)
        self._merge_table, self._word = table, np.append(word, -1)
        self.symbols, self.alive = symbols, np.ones(count, np.bool_)
        self._after, self._before = np.arange(1, count + 1), np.arange(-1, count)
        self._keys = np.full(count, NO_MERGE)  # of merges with the next symbol, the smallest first
        self.candidates = np.flatnonzero(mergeable[:-1] & (word[:-1] == word[1:]))
        """The symbols (P,) that may merge with the next one, of all unfinished words."""
        self._set_keys(self.candidates)

    def best_candidates(self) -> IntArray:
        """Indices into `candidates` of the merges that come next without dropout."""
        best = _run_min(self._keys[self.candidates], _runs(self._word[self.candidates])[0])
        candidates: IntArray = best[best != NO_MERGE] & _POSITION_MASK
        return np.searchsorted(self.candidates, candidates)

    def merge(self, dropped: BoolArray | None = None) -> IntArray:
        """Apply the best merge of each word that is not `dropped` (P,); return their keys."""
        keys = self._keys[self.candidates]  # (P,)
        if dropped is not None:
            keys[dropped] = NO_MERGE
        starts, counts = _runs(self._word[self.candidates])
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

    def _set_keys(self, candidates: IntArray) -> None:
        after = self._after[candidates]
        second = self.symbols.take(after, mode="clip")
        ranks = self._merge_table.ranks(self.symbols[candidates], second)
        none = (ranks < 0) | (self._word[after] != self._word[candidates])
        self._keys[candidates] = np.where(none, NO_MERGE, ranks << _BITS | candidates)


class _MergeHistory(NamedTuple):
    """The states that each piece passes through while its characters are merged."""

    merges: IntArray  # (V,) their number; 0 for special ids
    symbols: IntArray  # the characters of a piece, its symbols after one merge, …, the piece itself
    first: IntArray  # (V,) index of the first symbol of each piece
    max_ranks: IntArray  # for each merge of a piece the highest rank of it and those before it
    first_max_rank: IntArray  # (V,) index of the first rank of each piece

    def states(self, ids: IntArray, done: IntArray) -> tuple[IntArray, IntArray]:
        """The symbols (M,) of pieces after `done` merges each, and the index of their piece."""
        letters = self.merges[ids] + 1
        counts = letters - done
        first = self.first[ids] + _state_offset(letters, done)
        return self.symbols[ragged_arange(first, counts)], np.repeat(np.arange(len(ids)), counts)

    def count_done(self, ids: IntArray, word: IntArray, kept: IntArray) -> IntArray:
        """For each piece, how many of its merges are among the first `kept` of its word: they are
        applied by rank, and from left to right among equal ranks.
        """
        merges = self.merges[ids]
        max_ranks = self.max_ranks[ragged_arange(self.first_max_rank[ids], merges)]
        piece = np.repeat(np.arange(len(ids)), merges)
        words = word[piece]
        order = np.argsort(words << _BITS | max_ranks, kind="stable")
        starts, counts = _runs(words)
        turn = np.arange(len(words)) - np.repeat(starts, counts)
        return np.bincount(piece[order[turn < kept[words]]], minlength=len(ids))


def _state_offset(letters: IntArray, merges: IntArray | int) -> IntArray:
    """Where the state after `merges` begins: states have letters, letters - 1, … symbols."""
    offset: IntArray = merges * letters - merges * (merges - 1) // 2
    return offset


def _build_history(table: _MergeTable, ids: Mapping[str, int], size: int) -> _MergeHistory:
    """The history of all `size` ids, by merging the characters of all pieces in parallel."""
    spelled: list[list[int]] = [[i] for i in range(size)]
    for piece, i in ids.items():
        spelled[i] = [ids[letter] for letter in piece] if ids.keys() >= {*piece} else [i]
    letters = np.array([len(symbols) for symbols in spelled])  # (V,)
    sums = _state_offset(letters, letters)  # the symbols of all states
    first, first_max_rank = row_starts(sums), row_starts(letters - 1)
    symbols, max_ranks = (np.zeros(total.sum(), np.int64) for total in (sums, letters - 1))
    word = np.repeat(np.arange(size), letters)
    linked = _LinkedSymbols(table, np.concatenate(spelled), word, np.ones(len(word), np.bool_))
    worst, merges, active = np.zeros(size, np.int64), 0, np.arange(size)
    while len(active):
        alive = np.flatnonzero(linked.alive & np.isin(word, active))
        starts = first[active] + _state_offset(letters[active], merges)
        symbols[ragged_arange(starts, letters[active] - merges)] = linked.symbols[alive]
        best = linked.merge()
        active = word[best & _POSITION_MASK]
        worst[active] = np.maximum(worst[active], best >> _BITS)
        max_ranks[first_max_rank[active] + merges] = worst[active]
        merges += 1
    whole = np.bincount(word[linked.alive], minlength=size) == 1
    letters[~whole], symbols[first[~whole]] = 1, np.flatnonzero(~whole)  # never produced by merges
    return _MergeHistory(letters - 1, symbols, first, max_ranks, first_max_rank)


def _runs(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """Starts and counts of the runs of equal numbers, none of which is negative."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    return starts, np.diff(starts, append=len(numbers))


def _run_min(keys: IntArray, starts: IntArray) -> IntArray:
    """The smallest key of each run."""
    least: IntArray = np.minimum.reduceat(keys, starts) if len(starts) else starts
    return least


PieceEnds = tuple[list[int], list[float]]
"""The pieces that may end at one position of a word: where they start, and cumulative weights."""


class UnigramSampler:
    """Subword regularisation (Kudo 2018): P(segmentation) to the `power`, renormalised."""

    def __init__(
        self,
        scores: Mapping[str, float],
        power: float,
        ids: Mapping[str, int] | None = None,
        id_bytes: Sequence[bytes] = (),
        byte_ids: Sequence[int] = (),
        atomic: Collection[int] = (UNK,),
    ) -> None:
        """`scores` are log-probabilities of pieces; the rest are a vocabulary's tables, and ids
        that stay as they are.
        """
        self._atomic = atomic
        self._scores, self._power = scores, power
        self._ids, self._id_bytes, self._byte_ids = ids or {}, id_bytes, byte_ids
        self._max_piece_characters = max(map(len, scores))
        self._unknown = min(scores.values()) - _UNKNOWN_PENALTY
        self._ends = lru_cache(_WORD_CACHE_SIZE)(self._find_ends)

    def sample(self, texts: Ragged, seed: int) -> Ragged:
        """The same texts, each word segmented at random; UNK and symbols stay."""
        rng = Random(seed)
        return flatten([self._sample_row(row.tolist(), rng) for row in texts.rows()])

    def sample_word(self, word: str, rng: Random) -> list[str]:
        """The pieces of `word`; a character that is in no piece is a piece of its own."""
        ends = self._ends(word)
        pieces, last = [], len(word)
        while last:
            starts, cumulative = ends[last - 1]
            drawn = bisect(cumulative, rng.random() * cumulative[-1])
            first = starts[min(drawn, len(starts) - 1)]
            pieces.append(word[first:last])
            last = first
        return pieces[::-1]

    def _sample_row(self, row: Sequence[int], rng: Random) -> list[int]:
        ids: list[int] = []
        for is_atomic, run in groupby(row, self._atomic.__contains__):
            if is_atomic:
                ids += run
                continue
            text = b"".join(self._id_bytes[i] for i in run)
            words = _WORD.findall(text.decode("utf-8", "replace"))
            pieces = (piece for word in words for piece in self.sample_word(word, rng))
            ids += self._look_up(pieces)
        return ids

    def _look_up(self, pieces: Iterable[str]) -> list[int]:
        ids: list[int] = []
        for piece in pieces:
            if piece in self._ids:
                ids.append(self._ids[piece])
            elif self._byte_ids:
                ids += [self._byte_ids[byte] for byte in piece.encode()]
            elif ids[-1:] != [UNK]:  # SentencePiece fuses adjacent unknown pieces
                ids.append(UNK)
        return ids

    def _find_ends(self, word: str) -> list[PieceEnds]:
        """For each position the pieces that may end there, weighted by all segmentations before."""
        ends = []
        totals = [0.0]  # log of the summed weights of all segmentations up to each position
        for last in range(1, len(word) + 1):
            weights = []
            for first in range(max(0, last - self._max_piece_characters), last):
                score = self._scores.get(word[first:last])
                if score is None and first == last - 1:
                    score = self._unknown
                if score is not None:
                    weights.append((first, totals[first] + self._power * score))
            highest = max(weight for _, weight in weights)
            cumulative = list(accumulate(math.exp(weight - highest) for _, weight in weights))
            ends.append(([first for first, _ in weights], cumulative))
            totals.append(highest + math.log(cumulative[-1]))
        return ends
