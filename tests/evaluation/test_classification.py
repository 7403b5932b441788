import math

import numpy as np
import pytest

from regard.evaluation.classification import (
    Accuracy,
    Classified,
    Confusion,
    MacroF1,
    calibration_error,
    compare_classified,
    confusion_matrix,
    fit_temperature,
    wilson_interval,
)
from regard.evaluation.scores import ScoreSettings


def classified(answers, labels, size=3):
    logits = np.full((len(answers), size), -1.0)
    logits[np.arange(len(answers)), answers] = 1.0
    return Classified(logits, np.array(labels))


FOUND = classified([0, 0, 1, 1, 2], [0, 1, 1, 1, 0])


def score(metric, found):
    return metric.value(metric.count(found).sum(0))


def test_accuracy_and_macro_f1_are_those_of_the_definitions():
    assert score(Accuracy(), FOUND) == pytest.approx(60)
    # F1 of the classes: 2·1 / (2 + 2), 2·2 / (3 + 2), 0 / (0 + 1)
    assert score(MacroF1(), FOUND) == pytest.approx(100 * (0.5 + 0.8 + 0) / 3)


def test_a_class_that_is_neither_there_nor_answered_does_not_count():
    assert score(MacroF1(), classified([0, 1], [0, 1], size=5)) == 100


def test_a_confusion_has_a_row_for_each_right_class():
    counts = confusion_matrix(FOUND)
    assert counts.tolist() == [[1, 0, 1], [1, 2, 0], [0, 0, 0]]
    classes = Confusion(("a", "b", "c"), counts).to_json()["classes"]
    assert classes["b"] == {
        "examples": 3,
        "precision": 100,
        "recall": pytest.approx(66.6667),
        "f1": 80,
    }
    assert classes["c"]["recall"] is None


@pytest.mark.parametrize(("right", "total"), [(0, 10), (8, 10), (10, 10), (437, 500)])
def test_the_ends_of_wilsons_interval_are_where_the_share_is_as_unlikely(right, total):
    for end in wilson_interval(right, total):
        share = end / 100
        gap = right / total - share  # z standard deviations, of a share that is `share`
        assert gap**2 == pytest.approx(1.96**2 * share * (1 - share) / total, rel=1e-3, abs=1e-9)


def test_the_temperature_undoes_a_factor_of_calibrated_logits():
    random = np.random.default_rng(0)
    logits = random.normal(size=(20_000, 4))
    shares = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    labels = (random.random((20_000, 1)) > shares.cumsum(-1)).sum(-1)
    found = Classified(3 * logits, labels)
    temperature = fit_temperature(found)
    assert temperature == pytest.approx(3, rel=0.05)
    assert found.nll(temperature) < found.nll()
    assert calibration_error(found, temperature) < 1.5 < 10 < calibration_error(found)


def test_the_calibration_error_is_the_gap_between_confidence_and_accuracy():
    confidence = 1 / (1 + 2 * math.exp(-2))  # of every answer; 60% are right
    assert calibration_error(FOUND) == pytest.approx(100 * (confidence - 0.6))


def test_answers_that_are_always_right_leave_the_temperature_as_it_is():
    assert fit_temperature(classified([0, 1, 2], [0, 1, 2])) == 1.0


def test_comparisons_are_paired():
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 400)
    noisy = np.where(random.random(400) < 0.3, (labels + 1) % 3, labels)
    better = np.where(random.random(400) < 0.5, labels, noisy)
    accuracy, f1 = compare_classified(
        classified(noisy, labels), classified(better, labels), ScoreSettings(resamples=200)
    )
    assert (accuracy.name, f1.name) == ("accuracy", "macro_f1")
    gains = (better == labels).mean() - (noisy == labels).mean()
    assert accuracy.delta == pytest.approx(100 * gains)
    assert accuracy.p_value < 0.05
    found = classified(noisy, labels)
    same = compare_classified(found, found, ScoreSettings(resamples=100))
    assert [(one.delta, one.p_value) for one in same] == [(0, 1), (0, 1)]
