import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF

from regard.evaluation.bootstrap import bootstrap, interval, mean_of_runs, resample
from regard.evaluation.metrics import build_metric

WORDS = ["the", "a", "blue", "old", "house", "river", "sees", "crosses", "Jane", "Paul"]


def lines(seed, count=30):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(3, 9))) for _ in range(count)]


@pytest.mark.parametrize(("name", "direct"), [("bleu", BLEU()), ("chrf", CHRF())])
def test_draws_and_interval_are_those_of_sacrebleu(name, direct):
    want = direct.corpus_score(lines(0), [lines(1)], n_bootstrap=200)  # its seed is 12345
    metric = build_metric(name, "13a", lowercase=False)
    values = resample(metric, metric.count(lines(0), lines(1)), 200, 12345)
    low, high = interval(values)
    assert values.mean() == pytest.approx(want._mean, rel=1e-5)  # it sums in float32
    assert (high - low) / 2 == pytest.approx(want._ci, rel=1e-5)
    assert low < values.mean() < high


def test_the_seed_decides_and_nothing_else():
    metric = build_metric("chrf", "13a", lowercase=False)
    counts = metric.count(lines(0), lines(1))
    np.testing.assert_array_equal(resample(metric, counts, 9, 3), resample(metric, counts, 9, 3))
    assert (resample(metric, counts, 9, 3) != resample(metric, counts, 9, 4)).any()


def test_the_mean_over_runs_is_taken_in_each_resample():
    metric = build_metric("bleu", "13a", lowercase=False)
    texts = [line[: len(line) // 2] + line[len(line) // 2 :].upper() for line in lines(1)]
    counts = [metric.count(some, lines(1)) for some in (lines(1), texts)]
    whole, half = (bootstrap(metric, some, 50, 3) for some in counts)
    mean = mean_of_runs([whole, half])
    assert whole.value == pytest.approx(100)
    assert mean.value == pytest.approx((whole.value + half.value) / 2)
    np.testing.assert_allclose(mean.drawn, (whole.drawn + half.drawn) / 2)
    np.testing.assert_array_equal(mean_of_runs([half]).drawn, resample(metric, counts[1], 50, 3))


def test_interval_drops_a_fortieth_at_each_end():
    assert interval(np.arange(80.0)[::-1]) == (2, 77)
    assert interval(np.array([5.0, 3.0])) == (3, 5)
