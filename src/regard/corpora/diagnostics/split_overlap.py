"""What splits have in common: too much where sentences leak, too little where words are new."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.cleaning.adaptive_rules import RuleChoice, decide_leaks
from regard.corpora.cleaning.pair_filters import CHUNK, LeakRule, scripts_of
from regard.corpora.corpus import Corpus, Pair, SplitName
from regard.corpora.dedup import Hashes, hash_texts
from regard.corpora.splits import HELD_OUT, comparison_key
from regard.iterate import chunked
from regard.text.word_units import UNSPACED_SCRIPTS

Side = Literal["source", "target"]
SIDES: tuple[Side, Side] = ("source", "target")
MAX_EXAMPLES = 8
"""New words and characters that are kept to be shown."""

_WORD = re.compile(r"[^\W_]+")
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit of a hash is lost


DEFAULT_LEAK_RULE = RuleChoice("either", "")


class Leak(NamedTuple):
    """Pairs of a held-out split that another split has too, in any case and spacing."""

    split: SplitName
    within: SplitName
    total: int
    """Pairs of `split`."""
    sources: int
    targets: int
    pairs: int
    """Those whose two sides are in `within` together."""


class Coverage(NamedTuple):
    """How much of one side of a held-out split was never seen in training."""

    split: SplitName
    side: Side
    words: int
    """Running words, in any case; 0 where the script puts no spaces between them."""
    new_words: int
    word_examples: tuple[str, ...]
    """The most frequent new ones."""
    characters: int
    new_characters: int
    character_examples: tuple[str, ...]


@dataclass(frozen=True)
class SplitOverlap:
    """What the held-out splits of a corpus have in common with the others."""

    leaks: tuple[Leak, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    leaking_pairs: int = 0
    """Training pairs that share a held-out sentence: training leaves them out."""
    by: RuleChoice = DEFAULT_LEAK_RULE
    """Which sides they may not share, and why where that was chosen here."""


class SentenceHashes(NamedTuple):
    """Hashes (N,) of normalised sentences, and of both of a pair together."""

    source: Hashes
    target: Hashes
    pair: Hashes


def hash_pairs(pairs: Iterable[Pair]) -> SentenceHashes:
    """The hashes of `pairs` as they are compared: in any case and spacing."""
    sides = list(zip(*pairs, strict=True)) or [(), ()]
    source, target = (hash_texts(map(comparison_key, side)) for side in sides)
    return SentenceHashes(source, target, source * _MIX ^ target)


@dataclass
class _HeldOut:
    """A held-out split, and what of it has been met elsewhere so far."""

    split: SplitName
    hashes: SentenceHashes
    words: tuple[Counter[str], Counter[str]]
    characters: tuple[Counter[str], Counter[str]]
    seen: list[NDArray[np.bool_]] = field(init=False)
    new_words: tuple[set[str], set[str]] = field(init=False)
    new_characters: tuple[set[str], set[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.seen = [np.zeros(len(known), np.bool_) for known in self.hashes]
        self.new_words = set(self.words[0]), set(self.words[1])
        self.new_characters = set(self.characters[0]), set(self.characters[1])

    def mark_shared(self, others: SentenceHashes) -> NDArray[np.bool_]:
        """Note what is among `others` (N,): True where one shares a source or target: (2, N)."""
        for seen, known, other in zip(self.seen, self.hashes, others, strict=True):
            seen |= np.isin(known, other)
        return np.stack(
            [
                np.isin(others.source, self.hashes.source),
                np.isin(others.target, self.hashes.target),
            ]
        )

    def remove_known(self, texts: tuple[str, str]) -> None:
        """Note the words and characters of some training text, source and target."""
        for text, words, characters in zip(texts, self.new_words, self.new_characters, strict=True):
            characters.difference_update(text)
            if words:
                words.difference_update(_words(text))

    def coverage(self) -> Iterator[Coverage]:
        for place, side in enumerate(SIDES):
            words, characters = self.words[place], self.characters[place]
            new = Counter({word: words[word] for word in self.new_words[place]})
            odd = Counter({one: characters[one] for one in self.new_characters[place]})
            yield Coverage(
                self.split,
                side,
                words.total(),
                new.total(),
                _most_frequent(new),
                characters.total(),
                odd.total(),
                _most_frequent(odd),
            )


def compare_splits(corpus: Corpus, by: LeakRule | None = "either") -> SplitOverlap:
    """What validation and test share with training and with each other.

    `by` says which sides a training pair may not share, lest it be left out of training; None
    chooses that by what is shared.
    The held-out splits are kept as hashes and counts of words; training is read once.
    """
    held_out = [
        _read_held_out(name, corpus.splits[name](), corpus.languages)
        for name in HELD_OUT
        if name in corpus.splits
    ]
    leaks = []
    if len(held_out) == len(HELD_OUT):
        valid, test = held_out
        seen = [np.isin(*hashes) for hashes in zip(test.hashes, valid.hashes, strict=True)]
        leaks.append(_leak("test", "valid", seen))
    total, shared = 0, np.zeros(3, np.int64)  # by source, by target, by either
    for chunk in chunked(corpus.splits["train"](), CHUNK) if held_out else ():
        hashes = hash_pairs(chunk)
        texts = "\n".join(pair.source for pair in chunk), "\n".join(pair.target for pair in chunk)
        leaky = np.zeros((2, len(chunk)), np.bool_)
        for split in held_out:
            leaky |= split.mark_shared(hashes)
            split.remove_known(texts)
        total += len(chunk)
        shared += [*leaky.sum(1), leaky.any(0).sum()]
    leaks[:0] = [_leak(split.split, "train", split.seen) for split in held_out]
    coverage = [one for split in held_out for one in split.coverage()]
    rule = RuleChoice(by, "") if by else decide_leaks(int(shared[1]), total)
    leaking = int(shared[0] if rule.value == "source" else shared[2])
    return SplitOverlap(tuple(leaks), tuple(coverage), leaking, rule)


def _leak(split: SplitName, within: SplitName, seen: Sequence[NDArray[np.bool_]]) -> Leak:
    sources, targets, pairs = (int(one.sum()) for one in seen)
    return Leak(split, within, len(seen[0]), sources, targets, pairs)


def _read_held_out(split: SplitName, pairs: Iterator[Pair], languages: tuple[str, str]) -> _HeldOut:
    words: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    characters: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    spaced = [UNSPACED_SCRIPTS.isdisjoint(scripts_of(language)) for language in languages]
    hashes = []
    for chunk in chunked(pairs, CHUNK):
        hashes.append(hash_pairs(chunk))
        for place, texts in enumerate(zip(*chunk, strict=True)):
            text = "\n".join(texts)
            characters[place].update("".join(text.split()))
            if spaced[place]:
                words[place].update(_words(text))
    joined = [np.concatenate(arrays) for arrays in zip(*hashes, strict=True)]
    return _HeldOut(split, SentenceHashes(*joined or hash_pairs([])), words, characters)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _most_frequent(counts: Counter[str]) -> tuple[str, ...]:
    """The most frequent ones; of equally frequent ones the first in order."""
    ranked = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    return tuple(text for text, _ in ranked[:MAX_EXAMPLES])
