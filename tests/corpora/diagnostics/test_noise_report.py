from regard.corpora.corpus import Pair
from regard.corpora.diagnostics.noise_report import (
    NO_NOISE,
    NoiseReport,
    NumberedPair,
    measure_noise,
)
from regard.corpora.generated.generator import GeneratedSettings
from regard.corpora.generated.travel.grammar import travel


def test_lines_are_those_of_the_split():
    pairs = list(travel(GeneratedSettings(train=1500, valid=1, test=1)).splits["train"]())
    lines = range(1, 3001, 2)
    sample = [
        NumberedPair(line, Pair(pair.target, pair.source) if line % 101 == 0 else pair)
        for line, pair in zip(lines, pairs, strict=True)
    ]
    found = measure_noise(sample)
    assert found.sampled == 1500
    assert found.languages_known
    assert found.swapped.lines == (101, 303, 505)
    assert found.swapped.pairs == 15
    assert found.paired > 1400


def test_a_small_sample():
    assert measure_noise([NumberedPair(1, Pair("a", "b"))]) == NoiseReport(sampled=1)
    assert measure_noise([]) == NO_NOISE
