"""What held-out splits share with the others: leaked sentences, and words that train lacks."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.cleaning.adaptive_rules import RuleChoice, decide_leaks
from regard.corpora.cleaning.pair_filters import CHUNK, LeakRule
from regard.corpora.corpus import Corpus, Pair, SplitName
from regard.corpora.dedup import Hashes, hash_texts
from regard.corpora.languages import scripts_of
from regard.corpora.splits import HELD_OUT, comparison_key, punctuationless_key
from regard.iterate import chunked
from regard.text.word_units import UNSPACED_SCRIPTS

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
MAX_EXAMPLES = 8  # new words and characters that are kept

_WORD, _WORD_CHARACTER = re.compile(r"[^\W_]+"), re.compile(r"\w")
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that multiplication loses no bit
DEFAULT_LEAK_RULE = RuleChoice("either", "")


class Leak(NamedTuple):
    """Pairs of a held-out split that another split has too, ignoring case and spacing."""

    split: SplitName
    within: SplitName
    total: int  # pairs of `split`
    sources: int
    targets: int
    pairs: int  # whose source and target are a pair of `within`


class NearLeak(NamedTuple):
    """Sources of a held-out split that train has with other punctuation."""

    split: SplitName
    total: int
    sources: int  # not counting those that train has with the same punctuation
    example: str


class Coverage(NamedTuple):
    """How much of one side of a held-out split does not occur in train."""

    split: SplitName
    side: Side
    words: int  # running words, case-folded; 0 in scripts without spaces
    new_words: int
    word_examples: tuple[str, ...]  # the most frequent new ones
    characters: int
    new_characters: int
    character_examples: tuple[str, ...]


@dataclass(frozen=True)
class SplitOverlap:
    """What the held-out splits of a corpus share with the others."""

    leaks: tuple[Leak, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    leaking_pairs: int = 0  # training pairs that are left out, as they share a held-out sentence
    by: RuleChoice = DEFAULT_LEAK_RULE
    """Which sides they may not share, and the reason if that was chosen from the corpus."""
    near_leaks: tuple[NearLeak, ...] = ()


class SentenceHashes(NamedTuple):
    """Hashes (N,) of normalised sentences, and of whole pairs."""

    source: Hashes
    target: Hashes
    pair: Hashes


def hash_pairs(pairs: Sequence[Pair]) -> SentenceHashes:
    """The hashes of `pairs`, ignoring case and spacing."""
    source, target = (hash_texts(comparison_key(pair[side]) for pair in pairs) for side in (0, 1))
    return SentenceHashes(source, target, source * _MIX ^ target)


class _NewTypes:
    """The words or characters of a text that have not been found in train so far."""

    def __init__(self, tokens: Iterable[str]) -> None:
        self._counts = Counter(tokens)
        self.new = set(self._counts)

    def result(self) -> tuple[int, int, tuple[str, ...]]:
        """The number of all tokens and of new ones, and the most frequent new types."""
        ranked = sorted(self.new, key=lambda text: (-self._counts[text], text))
        num_new = sum(self._counts[text] for text in self.new)
        return self._counts.total(), num_new, tuple(ranked[:MAX_EXAMPLES])


class _HeldOut:
    """A held-out split, and which of it has been found in train so far."""

    def __init__(self, split: SplitName, pairs: Sequence[Pair], spaced: Sequence[bool]) -> None:
        self.split, self.pairs, self.hashes = split, pairs, hash_pairs(pairs)
        self.loose_hashes = _loose_hashes(pairs)
        self.seen = np.zeros((4, len(pairs)), np.bool_)  # source, target, pair, loose source
        texts = _joined(pairs)
        self.words = [
            _NewTypes(_words(text) if has_spaces else ())
            for text, has_spaces in zip(texts, spaced, strict=True)
        ]
        self.characters = [_NewTypes("".join(text.split())) for text in texts]

    def mark(self, pairs: Sequence[Pair], hashes: SentenceHashes, *, near: bool) -> None:
        """Record what of this split occurs in some training pairs."""
        for seen, own, other in zip(self.seen, self.hashes, hashes, strict=False):
            seen |= np.isin(own, other)
        if near:
            self.seen[3] |= np.isin(self.loose_hashes, _loose_hashes(pairs))
        for text, words, characters in zip(
            _joined(pairs), self.words, self.characters, strict=True
        ):
            characters.new.difference_update(text)
            if words.new:
                words.new.difference_update(_words(text))

    def near_leak(self) -> NearLeak:
        """Sources that were found in train with other punctuation only."""
        worded = [bool(_WORD_CHARACTER.search(pair.source)) for pair in self.pairs]
        places = np.flatnonzero(self.seen[3] & ~self.seen[0] & np.array(worded, np.bool_))
        example = self.pairs[places[0]].source if len(places) else ""
        return NearLeak(self.split, sum(worded), len(places), example)

    def coverage(self) -> list[Coverage]:
        """What was not found in train."""
        sides = zip(SIDES, self.words, self.characters, strict=True)
        return [Coverage(self.split, side, *w.result(), *c.result()) for side, w, c in sides]


def compare_splits(
    corpus: Corpus, by: LeakRule | None = "either", *, near: bool = False
) -> SplitOverlap:
    """What valid and test share with train and each other; if `by` is None, it chooses the rule."""
    spaced = [UNSPACED_SCRIPTS.isdisjoint(scripts_of(language)) for language in corpus.languages]
    held_out = [
        _HeldOut(name, list(corpus.splits[name]()), spaced)
        for name in HELD_OUT
        if name in corpus.splits
    ]
    total, shared = 0, np.zeros(3, np.int64)  # by source, by target, by either
    for chunk in chunked(corpus.splits["train"](), CHUNK) if held_out else ():
        hashes = hash_pairs(chunk)
        leaky = np.zeros((2, len(chunk)), np.bool_)
        for split in held_out:
            leaky[0] |= np.isin(hashes.source, split.hashes.source)
            leaky[1] |= np.isin(hashes.target, split.hashes.target)
            split.mark(chunk, hashes, near=near)
        total += len(chunk)
        shared += [*leaky.sum(1), leaky.any(0).sum()]
    leaks = [_leak(split.split, "train", split.seen) for split in held_out]
    if len(held_out) == len(HELD_OUT):
        valid, test = held_out
        both = zip(test.hashes, valid.hashes, strict=True)
        leaks.append(_leak("test", "valid", np.array([np.isin(*hashes) for hashes in both])))
    rule = RuleChoice(by, "") if by else decide_leaks(int(shared[1]), total)
    return SplitOverlap(
        tuple(leaks),
        tuple(one for split in held_out for one in split.coverage()),
        int(shared[0] if rule.value == "source" else shared[2]),
        rule,
        tuple(split.near_leak() for split in held_out) if near else (),
    )


def _leak(split: SplitName, within: SplitName, seen: NDArray[np.bool_]) -> Leak:
    sources, targets, pairs = seen[:3].sum(axis=1).tolist()
    return Leak(split, within, seen.shape[1], sources, targets, pairs)


def _loose_hashes(pairs: Sequence[Pair]) -> Hashes:
    """Hashes (N,) of the sources without punctuation."""
    return hash_texts(punctuationless_key(pair.source) for pair in pairs)


def _joined(pairs: Sequence[Pair]) -> tuple[str, str]:
    return "\n".join(pair.source for pair in pairs), "\n".join(pair.target for pair in pairs)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
