"""Pairs of a sample that look wrong: in a wrong language, paired by chance, cut short."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.corpora.cleaning.language_id import LanguageIdentifier
from regard.corpora.corpus import Pair
from regard.corpora.diagnostics.pair_noise import estimate_pair_noise

NOISE_SAMPLE = 20_000
"""Pairs that are looked at for their languages."""
PAIRING_SAMPLE = 10_000
"""Those of them that are looked at for how they are paired, which takes longer."""
MAX_EXAMPLE_LINES = 3


class NumberedPair(NamedTuple):
    """A pair, and its place in the split, from 1."""

    line: int
    pair: Pair


class NoiseRate(NamedTuple):
    """How many of a sample look wrong in one way."""

    share: float
    """Of the sample, from 0 to 1."""
    pairs: int
    """How many that are; estimated for pairings."""
    lines: tuple[int, ...] = ()
    """Some of them."""


ZERO_RATE = NoiseRate(0.0, 0)


@dataclass(frozen=True)
class NoiseReport:
    """What was found in a sample of a split."""

    sampled: int = 0
    languages_known: bool = False
    """Whether the languages of the two sides can be told apart."""
    swapped: NoiseRate = ZERO_RATE
    source_language: NoiseRate = ZERO_RATE
    target_language: NoiseRate = ZERO_RATE
    paired: int = 0
    """Pairs whose pairing was judged; 0 where nothing can be told."""
    random: NoiseRate = ZERO_RATE
    truncated: NoiseRate = ZERO_RATE


NO_NOISE = NoiseReport()


def measure_noise(sample: Sequence[NumberedPair]) -> NoiseReport:
    """What looks wrong in a sample whose order is chance."""
    pairs = [one.pair for one in sample]
    check = LanguageIdentifier(pairs)
    verdicts = check.classify(pairs)
    right = [one for one, wrong in zip(sample, verdicts.wrong, strict=True) if not wrong][
        :PAIRING_SAMPLE
    ]
    noise = estimate_pair_noise([one.pair for one in right])
    swapped, source, target = (_counted(sample, mask) for mask in verdicts)
    return NoiseReport(
        len(sample),
        bool(check),
        swapped,
        source,
        target,
        noise.judged,
        _estimated(right, noise.random, noise.random_places),
        _estimated(right, noise.truncated, noise.truncated_places),
    )


def _counted(sample: Sequence[NumberedPair], wrong: NDArray[np.bool_]) -> NoiseRate:
    lines = [one.line for one, is_wrong in zip(sample, wrong, strict=True) if is_wrong]
    return NoiseRate(
        len(lines) / max(1, len(sample)), len(lines), tuple(sorted(lines)[:MAX_EXAMPLE_LINES])
    )


def _estimated(sample: Sequence[NumberedPair], share: float, places: Sequence[int]) -> NoiseRate:
    lines = sorted(sample[place].line for place in places[:MAX_EXAMPLE_LINES])
    return NoiseRate(share, round(share * len(sample)), tuple(lines))
