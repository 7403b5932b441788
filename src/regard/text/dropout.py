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

from regard.text.flat import Flat, Numbers, begin, stretches

Claims = NDArray[np.bool_]

NONE = np.iinfo(np.int64).max
"""The key of two symbols that make no piece; all others are smaller."""
_BITS = 32  # the lower half of a number that holds two: of a key, the place of its merge
_PLACE = (1 << _BITS) - 1


class Dropout:
    """BPE-dropout (Provilkov et al. 2020, algorithm 1)."""

    def __init__(
        self, ids: Mapping[str, int], scores: Mapping[str, float], size: int, probability: float
    ) -> None:
        """`ids` and `scores` are those of the pieces that spell text, `size` is of all ids.

        `probability` is the share of the possible merges left out at each step.
        """
        self._pairs, self._probability = _Pairs(ids, scores), probability
        self._paths = _find_paths(self._pairs, ids, size)
        self._begins = np.zeros(size, np.bool_)
        self._begins[[i for piece, i in ids.items() if piece.startswith(" ")]] = True

    def cut(self, texts: Flat, seed: int) -> Flat:
        """The same texts cut at random, where `texts` are those that are cut without chance."""
        chance = np.random.default_rng(seed)
        ids = texts.ids.astype(np.int64)  # (N,)
        row = np.repeat(np.arange(len(texts.counts)), texts.counts)  # (N,)
        starts = np.flatnonzero(self._begins[ids] | _changes(row))  # (W,)
        word = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ids)))  # (N,)
        done = self._paths.merges[ids]  # (N,)
        kept = chance.geometric(self._probability, len(starts)) - 1  # (W,) till one is left out
        changed = (kept < np.bincount(word, done))[word]  # (N,)
        done[changed] = self._paths.count_done(ids[changed], word[changed], kept)
        symbols, origin = self._paths.states(ids, done)  # (M,), (M,)
        chains = _Chains(self._pairs, symbols, word[origin], changed[origin])
        left_out = chains.chosen()
        while len(chains.places):
            dropped = chance.random(len(chains.places), np.float32) < self._probability
            dropped[left_out] = True
            left_out = left_out[:0]
            chains.merge(dropped)
        counts = np.bincount(row[origin[chains.alive]], minlength=len(texts.counts))
        return Flat(chains.symbols[chains.alive].astype(np.int32), counts)


class _Pairs:
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
        self._pairs, self._ranks = np.array([*found, (NONE, -1)], np.int64).T.copy()

    def ranks(self, left: Numbers, right: Numbers) -> Numbers:
        """The rank (N,) of what each two ids make together, or -1."""
        pairs = left << _BITS | right
        found = np.searchsorted(self._pairs, pairs)
        return np.where(self._pairs[found] == pairs, self._ranks[found], -1)


class _Chains:
    """Words as chains of symbols, in which neighbours are merged."""

    def __init__(self, pairs: _Pairs, symbols: Numbers, word: Numbers, free: Claims) -> None:
        """`symbols`, the number of the `word` that each is in, and whether it may merge: (M,)."""
        count = len(symbols)
        self._pairs, self._word = pairs, np.append(word, -1)
        self.symbols, self.alive = symbols, np.ones(count, np.bool_)
        self._after, self._before = np.arange(1, count + 1), np.arange(-1, count)
        self._keys = np.full(count, NONE)
        """By them merges are chosen: the least of a word's, which is the best one's or leftmost."""
        self.places = np.flatnonzero(free[:-1] & (word[:-1] == word[1:]))
        """The symbols (P,) that may be merged with the next, of all words that are not done."""
        self._set_keys(self.places)

    def chosen(self) -> Numbers:
        """The numbers, among `places`, of the merges that come next without chance."""
        best = _least(self._keys[self.places], self._words().starts)
        places: Numbers = best[best != NONE] & _PLACE
        return np.searchsorted(self.places, places)

    def merge(self, dropped: Claims | None = None) -> Numbers:
        """Make the best merge of each word that is not `dropped` (P,); answer with their keys.

        A word that has none is done.
        """
        keys = self._keys[self.places]  # (P,)
        if dropped is not None:
            keys[dropped] = NONE
        starts, counts = self._words()
        best = _least(keys, starts)
        going: Claims = best != NONE
        best = best[going]
        at = best & _PLACE
        gone = self._after[at]
        after = self._after[gone]
        self.symbols[at] = self._pairs.merged[best >> _BITS]
        self._after[at], self._before[after] = after, at
        self.alive[gone] = False
        self.places = self.places[np.repeat(going, counts) & self.alive[self.places]]
        before = self._before[at]
        before = before[self._word[before] == self._word[at]]
        self._set_keys(np.concatenate((at, before)))
        return best

    def _words(self) -> "_Runs":
        return _runs(self._word[self.places])

    def _set_keys(self, places: Numbers) -> None:
        after = self._after[places]
        ranks = self._pairs.ranks(self.symbols[places], self.symbols.take(after, mode="clip"))
        none = (ranks < 0) | (self._word[after] != self._word[places])
        self._keys[places] = np.where(none, NONE, ranks << _BITS | places)


class _Paths(NamedTuple):
    """How the letters of each piece come together without chance."""

    merges: Numbers  # (V,) how many there are; 0 for what is no text
    symbols: Numbers
    """All letters of a piece, then what is left after its first merge, after two, …, itself."""
    first: Numbers  # (V,) where those of each piece begin
    waits: Numbers
    """The merges of a piece in turn: the worst rank so far, which each has to wait for."""
    first_wait: Numbers  # (V,) where those of each piece begin

    def states(self, ids: Numbers, done: Numbers) -> tuple[Numbers, Numbers]:
        """The symbols (M,) of pieces after so many merges each, and the number of their piece."""
        letters = self.merges[ids] + 1
        counts = letters - done
        first = self.first[ids] + done * letters - done * (done - 1) // 2
        return self.symbols[stretches(first, counts)], np.repeat(np.arange(len(ids)), counts)

    def count_done(self, ids: Numbers, word: Numbers, kept: Numbers) -> Numbers:
        """Of each piece how many merges are among the first `kept` ones of its word.

        In a word each merge waits for its turn: better ones in other pieces come first, and of
        equals the one on the left.
        """
        merges = self.merges[ids]
        waits = self.waits[stretches(self.first_wait[ids], merges)]
        piece = np.repeat(np.arange(len(ids)), merges)
        words = word[piece]
        order = np.argsort(words << _BITS | waits, kind="stable")
        turn = np.arange(len(words)) - np.repeat(*_runs(words))
        return np.bincount(piece[order[turn < kept[words]]], minlength=len(ids))


def _find_paths(pairs: _Pairs, ids: Mapping[str, int], size: int) -> _Paths:
    """The paths of all `size` ids, found by merging the letters of all pieces at once."""
    spelled: list[list[int]] = [[i] for i in range(size)]
    for piece, i in ids.items():
        spelled[i] = [ids[letter] for letter in piece] if ids.keys() >= {*piece} else [i]
    letters = np.array([len(symbols) for symbols in spelled])  # (V,)
    sums = letters * (letters + 1) // 2  # of all its states: letters, letters - 1, …, 1
    first, first_wait = begin(sums), begin(letters - 1)
    symbols, waits = (np.zeros(total.sum(), np.int64) for total in (sums, letters - 1))
    word = np.repeat(np.arange(size), letters)
    chains = _Chains(pairs, np.concatenate(spelled), word, np.ones(len(word), np.bool_))
    worst, merges, going = np.zeros(size, np.int64), 0, np.arange(size)
    while len(going):
        lives = np.flatnonzero(chains.alive & np.isin(word, going))
        starts = first[going] + merges * letters[going] - merges * (merges - 1) // 2
        symbols[stretches(starts, letters[going] - merges)] = chains.symbols[lives]
        best = chains.merge()
        going = word[best & _PLACE]
        worst[going] = np.maximum(worst[going], best >> _BITS)
        waits[first_wait[going] + merges] = worst[going]
        merges += 1
    whole = np.bincount(word[chains.alive], minlength=size) == 1
    letters[~whole], symbols[first[~whole]] = 1, np.flatnonzero(~whole)  # no text is cut so
    return _Paths(letters - 1, symbols, first, waits, first_wait)


class _Runs(NamedTuple):
    """Stretches of equal numbers."""

    starts: Numbers
    counts: Numbers


def _runs(numbers: Numbers) -> _Runs:
    starts = np.flatnonzero(_changes(numbers))
    return _Runs(starts, np.diff(starts, append=len(numbers)))


def _changes(numbers: Numbers) -> Claims:
    """Whether each number (N,) is another than that before it; the first one is."""
    changes = np.ones(len(numbers), np.bool_)
    np.not_equal(numbers[1:], numbers[:-1], out=changes[1:])
    return changes


def _least(keys: Numbers, starts: Numbers) -> Numbers:
    """The least key of each stretch that begins at one of `starts`."""
    least: Numbers = np.minimum.reduceat(keys, starts) if len(starts) else starts
    return least
