"""Cleaning rules chosen from the corpus, where the recipe says `auto`."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from regard.corpora.cleaning.pair_filters import CHUNK, RATIO_FLOOR, CleaningSettings, LeakRule
from regard.corpora.corpus import Pair
from regard.corpora.splits import LeakIndex
from regard.iterate import chunked

RATIO_SAMPLE = 20_000  # first pairs of a corpus, from which its length ratio is estimated
RATIO_QUANTILE, RATIO_MARGIN = 0.9, 2.5  # the limit is the margin times the quantile of ratios
MAX_TARGET_LEAK_SHARE = 0.1  # of the training pairs that may be dropped because of their targets


class RuleChoice(NamedTuple):
    """A value for a rule, and the reason; empty for the default."""

    value: float | LeakRule
    reason: str


def choose_ratio(first: Sequence[Pair]) -> RuleChoice:
    """A limit for the length ratio, from the ratios of the first pairs; at least the default."""
    default = CleaningSettings().max_ratio
    assert default is not None
    lengths = (sorted(map(len, pair)) for pair in first if all(side.strip() for side in pair))
    ratios = sorted(longer / max(shorter, RATIO_FLOOR) for shorter, longer in lengths)
    common = ratios[int(RATIO_QUANTILE * (len(ratios) - 1))] if ratios else 1.0
    if RATIO_MARGIN * common <= default:
        return RuleChoice(default, "")
    return RuleChoice(
        float(math.ceil(RATIO_MARGIN * common)),
        f"one side has up to {common:.1f} times the characters of the other in nine pairs of ten, "
        "as is normal in this corpus",
    )


def choose_leaks(pairs: Iterable[Pair], held_out: Iterable[Pair]) -> RuleChoice:
    """`source` if so many pairs share a held-out target that it is not a leak; else `either`."""
    index, total, shared = LeakIndex(held_out), 0, 0
    for chunk in chunked(pairs, CHUNK):
        total += len(chunk)
        shared += int(index.shared(chunk)[1].sum())
    return decide_leaks(shared, total)


def decide_leaks(shared: int, total: int) -> RuleChoice:
    """The rule, given how many of all training pairs share the target of a held-out one."""
    if shared <= MAX_TARGET_LEAK_SHARE * total:
        return RuleChoice("either", "")
    return RuleChoice(
        "source",
        f"{shared / total:.0%} of the pairs share their target with a held-out one: targets "
        "repeat, so a shared one is not a leak",
    )
