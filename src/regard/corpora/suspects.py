"""Pairs of a sample that look wrong: in a wrong language, paired by chance, cut short."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.language_check import LanguageCheck
from regard.corpora.pair_noise import estimate_pair_noise
from regard.corpora.pairs import Pair

SAMPLE = 20_000
"""Pairs that are looked at for their languages."""
PAIRED = 10_000
"""Those of them that are looked at for how they are paired, which takes longer."""
SHOWN = 3


class NumberedPair(NamedTuple):
    """A pair, and its place in the split, from 1."""

    line: int
    pair: Pair


class Suspicion(NamedTuple):
    """How many of a sample look wrong in one way."""

    share: float
    """Of the sample, from 0 to 1."""
    pairs: int
    """How many that are; estimated for pairings."""
    lines: tuple[int, ...] = ()
    """Some of them."""


NONE = Suspicion(0.0, 0)


@dataclass(frozen=True)
class Suspects:
    """What was found in a sample of a split."""

    sampled: int = 0
    languages_known: bool = False
    """Whether the languages of the two sides can be told apart."""
    swapped: Suspicion = NONE
    source_language: Suspicion = NONE
    target_language: Suspicion = NONE
    paired: int = 0
    """Pairs whose pairing was judged; 0 where nothing can be told."""
    random: Suspicion = NONE
    truncated: Suspicion = NONE


NOTHING = Suspects()


def find_suspects(sample: Sequence[NumberedPair]) -> Suspects:
    """What looks wrong in a sample whose order is chance."""
    pairs = [one.pair for one in sample]
    check = LanguageCheck(pairs)
    verdicts = check.judge(pairs)
    right = [one for one, wrong in zip(sample, verdicts.wrong, strict=True) if not wrong][:PAIRED]
    noise = estimate_pair_noise([one.pair for one in right])
    swapped, source, target = (_counted(sample, mask) for mask in verdicts)
    return Suspects(
        len(sample),
        bool(check),
        swapped,
        source,
        target,
        noise.judged,
        _estimated(right, noise.random, noise.random_places),
        _estimated(right, noise.truncated, noise.truncated_places),
    )


def _counted(sample: Sequence[NumberedPair], wrong: NDArray[np.bool_]) -> Suspicion:
    lines = [one.line for one, is_wrong in zip(sample, wrong, strict=True) if is_wrong]
    return Suspicion(len(lines) / max(1, len(sample)), len(lines), tuple(sorted(lines)[:SHOWN]))


def _estimated(sample: Sequence[NumberedPair], share: float, places: Sequence[int]) -> Suspicion:
    lines = sorted(sample[place].line for place in places[:SHOWN])
    return Suspicion(share, round(share * len(sample)), tuple(lines))
