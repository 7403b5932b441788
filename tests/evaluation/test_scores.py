from dataclasses import replace

import numpy as np
import pytest
from pydantic import ValidationError
from sacrebleu.metrics import BLEU, CHRF

from regard.errors import CorpusError, SettingsError
from regard.evaluation.metrics import MetricOptions, build_metric
from regard.evaluation.scores import (
    ScoreSettings,
    bootstrap,
    compare,
    confidence_interval,
    format_p_value,
    mean_of_runs,
    score,
    score_by_length,
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


def resample(metric, counts, resamples, seed):
    return bootstrap(metric, counts, ScoreSettings(resamples=resamples, seed=seed)).drawn


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
    whole, half = (bootstrap(metric, some, ScoreSettings(resamples=50, seed=3)) for some in counts)
    mean = mean_of_runs([whole, half])
    assert whole.value == pytest.approx(100)
    assert mean.value == pytest.approx((whole.value + half.value) / 2)
    np.testing.assert_allclose(mean.drawn, (whole.drawn + half.drawn) / 2)
    np.testing.assert_array_equal(mean_of_runs([half]).drawn, resample(metric, counts[1], 50, 3))


def test_interval_drops_a_fortieth_at_each_end():
    assert confidence_interval(np.arange(80.0)[::-1]) == (2, 77)
    assert confidence_interval(np.array([5.0, 3.0])) == (3, 5)


COMPARED = ScoreSettings(metrics=("bleu", "chrf", "ter", "exact"), resamples=200)


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


@pytest.mark.parametrize("lines", [1, 19, 20])
def test_few_lines_test_nothing(lines):
    right = corpus()[:lines]
    for found in compare(spoiled(right, 0.9), right, right, COMPARED):
        assert (found.p_value is None) == (found.interval is None) == (lines < 20)
        assert format_p_value(found.p_value) == ("– " if lines < 20 else "0.005*")


def test_a_system_is_no_better_than_itself():
    lines = spoiled(corpus(), 0.3)
    for found in compare(lines, lines, corpus(), COMPARED):
        assert found.p_value == 1
        assert found.wins == 0.5
        assert found.delta == 0
        assert found.interval == (0, 0)


def test_a_much_better_system_is_significant():
    good, bad = spoiled(corpus(), 0.1), spoiled(corpus(), 0.5)
    for found in compare(bad, good, corpus(), COMPARED):
        assert found.p_value == pytest.approx(1 / 201)
        assert found.wins == 1
        assert (found.delta < 0) == (found.name == "TER")


def test_equally_good_systems_are_not_significant():
    for found in compare(spoiled(corpus(), 0.3), spoiled(corpus(), 0.3, 2), corpus(), COMPARED):
        assert found.p_value > 0.05
        assert found.interval.low < 0 < found.interval.high


def test_swapping_the_systems_flips_the_signs_alone():
    one, two = spoiled(corpus(), 0.2), spoiled(corpus(), 0.3)
    pairs = zip(
        compare(one, two, corpus(), COMPARED), compare(two, one, corpus(), COMPARED), strict=True
    )
    for there, back in pairs:
        assert back.delta == -there.delta
        assert back.interval == (-there.interval.high, -there.interval.low)
        assert back.wins == pytest.approx(1 - there.wins)
        assert back.p_value == there.p_value
        assert (back.first, back.second_mean) == (there.second, there.first_mean)


def test_values_means_and_repeatability():
    one, two = spoiled(corpus(), 0.2), spoiled(corpus(), 0.3)
    bleu = compare(one, two, corpus(), COMPARED)[0]
    assert bleu.first == pytest.approx(BLEU().corpus_score(one, [corpus()]).score)
    assert bleu.second == pytest.approx(BLEU().corpus_score(two, [corpus()]).score)
    assert bleu.first_mean == pytest.approx(bleu.first, abs=2)
    assert bleu.delta == bleu.second - bleu.first
    assert (bleu.resamples, bleu.seed) == (200, 12345)
    assert "bs:200|seed:12345|" in bleu.signature
    assert compare(one, two, corpus(), COMPARED)[0] == bleu
    other = compare(one, two, corpus(), COMPARED.model_copy(update={"seed": 1}))[0]
    assert replace(other, seed=12345, signature=bleu.signature) != bleu


def test_a_comparison_needs_resamples_and_equal_numbers_of_lines():
    with pytest.raises(SettingsError, match="needs at least 100, got 99"):
        compare(["a"], ["a"], ["a"], ScoreSettings(resamples=99))
    with pytest.raises(CorpusError, match="1 first translations, 2 second translations, 1 ref"):
        compare(["a"], ["a", "b"], ["a"], COMPARED)


UNSAMPLED = ScoreSettings(metrics=("chrf", "exact"), resamples=0)


def sentences(*lengths):
    return [" ".join("abcdefghij"[:length]) for length in lengths]


def ranges(groups):
    return [(group.shortest, group.longest, group.count) for group in groups]


def test_letters_are_counted_where_there_are_no_spaces():
    sources = ["これはペンです。", "Ja"]
    groups = score_by_length(sources, sources, sources, UNSAMPLED, 2)
    assert [group.longest for group in groups] == [1, 8]


def test_each_group_is_scored_by_its_own_lines():
    sources = sentences(2, 8, 3, 9)
    hypotheses = ["a b", "a b c d", "a b c", "wrong"]
    short, long = score_by_length(sources, hypotheses, sources, UNSAMPLED, 2)
    assert [score.value for score in short.scores] == [100, 100]
    want = CHRF().corpus_score(["a b c d", "wrong"], [sentences(8, 9)]).score
    assert long.scores[0].value == pytest.approx(want)
    assert long.scores[1].value == 0


def test_lines_fall_into_equal_shares():
    sources = sentences(5, 1, 4, 2, 3, 6)
    groups = score_by_length(sources, sources, sources, UNSAMPLED, 3)
    assert ranges(groups) == [(1, 2, 2), (3, 4, 2), (5, 6, 2)]


@pytest.mark.parametrize(
    ("lengths", "want"),
    [
        ((3, 3, 3, 3), [(3, 3, 4)]),
        ((1, 3, 3, 3), [(1, 3, 4)]),
        ((3, 3, 3, 9), [(3, 3, 3), (9, 9, 1)]),
        ((7,), [(7, 7, 1)]),
    ],
)
def test_sentences_of_one_length_stay_together(lengths, want):
    sources = sentences(*lengths)
    groups = score_by_length(sources, sources, sources, UNSAMPLED, 2)
    assert ranges(groups) == want


def test_fewer_sentences_than_groups_give_a_group_each():
    sources = sentences(1, 2, 3)
    groups = score_by_length(sources, sources, sources, UNSAMPLED, 5)
    assert ranges(groups) == [(1, 1, 1), (2, 2, 1), (3, 3, 1)]


def test_lines_of_groups_must_pair_up():
    with pytest.raises(CorpusError, match="1 sources, 2 hypotheses, 2 references"):
        score_by_length(["a"], ["a", "b"], ["a", "b"], UNSAMPLED)


@pytest.mark.parametrize(
    "measure",
    [
        lambda text: score(text, text),
        lambda text: compare(text, text, text, ScoreSettings()),
        lambda text: score_by_length(text, text, text, ScoreSettings()),
    ],
    ids=["score", "compare", "by length"],
)
def test_one_text_is_no_list_of_texts(measure):
    with pytest.raises(TypeError, match=r"must be a list of texts \(str\), got str"):
        measure("Il part.")
