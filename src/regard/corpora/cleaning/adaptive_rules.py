"""Rules of cleaning that follow what a corpus is like, where a recipe leaves them open."""

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import NamedTuple

from regard.corpora.cleaning.pair_filters import CHUNK, RATIO_FLOOR, CleaningSettings, LeakRule
from regard.corpora.corpus import Pair
from regard.corpora.dedup import HashSet, hash_texts
from regard.corpora.splits import comparison_key
from regard.iterate import chunked

RATIO_SAMPLE = 20_000
"""Pairs at the beginning of a corpus by which its ratio of lengths is judged: it may come through a
pipe, once."""
RATIO_QUANTILE, RATIO_MARGIN = 0.9, 2.5
"""So many times the ratio that this share of the pairs stays within is still as the corpus is. What
is broken in one pair of ten does not decide."""
MAX_TARGET_LEAK_SHARE = 0.1
"""Share of the training pairs that may be dropped for their targets."""


class RuleChoice(NamedTuple):
    """A value for a rule, and why; no reason is given for the usual one."""

    value: float | LeakRule
    reason: str


class Peeked(NamedTuple):
    """The first pairs of a stream, and all of it."""

    first: list[Pair]
    pairs: Iterator[Pair]


def peek(pairs: Iterator[Pair]) -> Peeked:
    """The first pairs, which still come with the others."""
    first = list(islice(pairs, RATIO_SAMPLE))
    return Peeked(first, chain(first, pairs))


def choose_ratio(first: Sequence[Pair]) -> RuleChoice:
    """The most that one side may be longer, by the ratios of the first pairs; never below 6."""
    usual = CleaningSettings().max_ratio
    assert usual is not None
    ratios = sorted(_ratio(pair) for pair in first if pair.source.strip() and pair.target.strip())
    common = ratios[int(RATIO_QUANTILE * (len(ratios) - 1))] if ratios else 1.0
    if RATIO_MARGIN * common <= usual:
        return RuleChoice(usual, "")
    return RuleChoice(
        float(math.ceil(RATIO_MARGIN * common)),
        f"one side has up to {common:.1f} times the characters of the other in nine pairs of ten, "
        "which is how this corpus is",
    )


def _ratio(pair: Pair) -> float:
    shorter, longer = sorted(map(len, pair))
    return longer / max(shorter, RATIO_FLOOR)


def choose_leaks(pairs: Iterable[Pair], held_out: Iterable[Pair]) -> RuleChoice:
    """`source` where very many pairs share a held-out target, so that to share it says little."""
    targets, total, shared = HashSet(), 0, 0
    for chunk in chunked(held_out, CHUNK):
        targets.add_new(hash_texts(comparison_key(pair.target) for pair in chunk))
    for chunk in chunked(pairs, CHUNK):
        total += len(chunk)
        shared += int(
            targets.contains(hash_texts(comparison_key(pair.target) for pair in chunk)).sum()
        )
    return decide_leaks(shared, total)


def decide_leaks(shared: int, total: int) -> RuleChoice:
    """What follows from how many of all training pairs share the target of a held-out one."""
    if shared <= MAX_TARGET_LEAK_SHARE * total:
        return RuleChoice("either", "")
    told = f"{shared / total:.0%} of the pairs share their target with a held-out one"
    return RuleChoice("source", f"{told}: targets repeat, and a shared one gives nothing away")
