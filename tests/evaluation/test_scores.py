import numpy as np
import pytest
from pydantic import ValidationError
from sacrebleu.metrics import BLEU, CHRF

from regard.errors import CorpusError
from regard.evaluation.metrics import MetricOptions, build_metric
from regard.evaluation.scores import (
    ScoreSettings,
    bootstrap,
    confidence_interval,
    mean_of_runs,
    resample,
    score,
)

HYPOTHESES = ["Jane visits Africa in September.", "the blue house", "He sleeps"]
REFERENCES = ["Jane visits Africa in September.", "the old blue house", "He does not sleep"]


def test_scores_come_in_the_order_asked():
    settings = ScoreSettings(metrics=("exact", "ter", "bleu"), resamples=0)
    exact, ter, bleu = score(HYPOTHESES, REFERENCES, settings)
    assert (exact.name, ter.name, bleu.name) == ("exact", "TER", "BLEU")
    assert exact.value == pytest.approx(100 / 3)
    assert exact.interval is ter.interval is bleu.interval is None
    assert bleu.value == pytest.approx(BLEU().corpus_score(HYPOTHESES, [REFERENCES]).score)


def test_interval_holds_the_value_and_is_named_in_the_signature():
    settings = ScoreSettings(metrics=("bleu", "chrf", "ter", "exact"), resamples=100, seed=5)
    for found in score(HYPOTHESES, REFERENCES, settings):
        assert found.interval.low < found.value < found.interval.high
        assert "bs:100|seed:5|" in found.signature


def test_signature_is_sacrebleus_own():
    direct = BLEU()
    direct.corpus_score(HYPOTHESES, [REFERENCES], n_bootstrap=1000)
    assert score(HYPOTHESES, REFERENCES)[0].signature == str(direct.get_signature())


def test_lines_must_pair_up():
    with pytest.raises(CorpusError, match="3 hypotheses, 2 references"):
        score(HYPOTHESES, REFERENCES[:2])


def test_settings_refuse_unknown_metrics_and_none():
    with pytest.raises(ValidationError, match="metrics"):
        ScoreSettings(metrics=("meteor",))
    with pytest.raises(ValidationError, match="at least 1"):
        ScoreSettings(metrics=())


WORDS = ["the", "a", "blue", "old", "house", "river", "sees", "crosses", "Jane", "Paul"]


def lines(seed, count=30):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=rng.integers(3, 9))) for _ in range(count)]


@pytest.mark.parametrize(("name", "direct"), [("bleu", BLEU()), ("chrf", CHRF())])
def test_draws_and_interval_are_those_of_sacrebleu(name, direct):
    want = direct.corpus_score(lines(0), [lines(1)], n_bootstrap=200)  # its seed is 12345
    metric = build_metric(name, MetricOptions("13a"))
    values = resample(metric, metric.count(lines(0), lines(1)), 200, 12345)
    low, high = confidence_interval(values)
    assert values.mean() == pytest.approx(want._mean, rel=1e-5)  # it sums in float32
    assert (high - low) / 2 == pytest.approx(want._ci, rel=1e-5)
    assert low < values.mean() < high


def test_the_seed_decides_and_nothing_else():
    metric = build_metric("chrf", MetricOptions("13a"))
    counts = metric.count(lines(0), lines(1))
    np.testing.assert_array_equal(resample(metric, counts, 9, 3), resample(metric, counts, 9, 3))
    assert (resample(metric, counts, 9, 3) != resample(metric, counts, 9, 4)).any()


def test_the_mean_over_runs_is_taken_in_each_resample():
    metric = build_metric("bleu", MetricOptions("13a"))
    texts = [line[: len(line) // 2] + line[len(line) // 2 :].upper() for line in lines(1)]
    counts = [metric.count(some, lines(1)) for some in (lines(1), texts)]
    whole, half = (bootstrap(metric, some, 50, 3) for some in counts)
    mean = mean_of_runs([whole, half])
    assert whole.value == pytest.approx(100)
    assert mean.value == pytest.approx((whole.value + half.value) / 2)
    np.testing.assert_allclose(mean.drawn, (whole.drawn + half.drawn) / 2)
    np.testing.assert_array_equal(mean_of_runs([half]).drawn, resample(metric, counts[1], 50, 3))


def test_interval_drops_a_fortieth_at_each_end():
    assert confidence_interval(np.arange(80.0)[::-1]) == (2, 77)
    assert confidence_interval(np.array([5.0, 3.0])) == (3, 5)
