from dataclasses import replace

import numpy as np
import pytest
from sacrebleu.metrics import BLEU

from regard.errors import CorpusError, SettingsError
from regard.evaluation.scores import ScoreSettings
from regard.evaluation.significance import compare

WORDS = np.array(["the", "a", "blue", "old", "house", "river", "sees", "crosses", "Jane", "Paul"])
SETTINGS = ScoreSettings(metrics=("bleu", "chrf", "ter", "exact"), resamples=200)


def corpus(count=60):
    draw = np.random.default_rng(0)
    return [" ".join(draw.choice(WORDS, size=draw.integers(4, 10))) for _ in range(count)]


def spoiled(lines, share, seed=1):
    """The lines with about this share of their words replaced."""
    draw = np.random.default_rng(seed)
    return [
        " ".join(str(draw.choice(WORDS)) if draw.random() < share else w for w in line.split())
        for line in lines
    ]


def test_a_system_is_no_better_than_itself():
    lines = spoiled(corpus(), 0.3)
    for found in compare(lines, lines, corpus(), SETTINGS):
        assert found.p_value == 1
        assert found.wins == 0.5
        assert found.delta == 0
        assert found.interval == (0, 0)


def test_a_much_better_system_is_seen():
    good, bad = spoiled(corpus(), 0.1), spoiled(corpus(), 0.5)
    for found in compare(bad, good, corpus(), SETTINGS):
        assert found.p_value == pytest.approx(1 / 201)
        assert found.wins == 1
        assert (found.delta < 0) == (found.name == "TER")


def test_equals_are_not_told_apart():
    for found in compare(spoiled(corpus(), 0.3), spoiled(corpus(), 0.3, 2), corpus(), SETTINGS):
        assert found.p_value > 0.05
        assert found.interval.low < 0 < found.interval.high


def test_swapping_the_systems_flips_the_signs_alone():
    one, two = spoiled(corpus(), 0.2), spoiled(corpus(), 0.3)
    pairs = zip(
        compare(one, two, corpus(), SETTINGS), compare(two, one, corpus(), SETTINGS), strict=True
    )
    for there, back in pairs:
        assert back.delta == -there.delta
        assert back.interval == (-there.interval.high, -there.interval.low)
        assert back.wins == pytest.approx(1 - there.wins)
        assert back.p_value == there.p_value
        assert (back.first, back.second_mean) == (there.second, there.first_mean)


def test_values_means_and_repeatability():
    one, two = spoiled(corpus(), 0.2), spoiled(corpus(), 0.3)
    bleu = compare(one, two, corpus(), SETTINGS)[0]
    assert bleu.first == pytest.approx(BLEU().corpus_score(one, [corpus()]).score)
    assert bleu.second == pytest.approx(BLEU().corpus_score(two, [corpus()]).score)
    assert bleu.first_mean == pytest.approx(bleu.first, abs=2)
    assert bleu.delta == bleu.second - bleu.first
    assert (bleu.resamples, bleu.seed) == (200, 12345)
    assert "bs:200|seed:12345|" in bleu.signature
    assert compare(one, two, corpus(), SETTINGS)[0] == bleu
    other = compare(one, two, corpus(), SETTINGS.model_copy(update={"seed": 1}))[0]
    assert replace(other, seed=12345, signature=bleu.signature) != bleu


def test_errors_say_what_is_wrong():
    with pytest.raises(SettingsError, match="needs at least 100, got 99"):
        compare(["a"], ["a"], ["a"], ScoreSettings(resamples=99))
    with pytest.raises(CorpusError, match="1 first translations, 2 second translations, 1 ref"):
        compare(["a"], ["a", "b"], ["a"], SETTINGS)
