import pytest
from pydantic import ValidationError
from sacrebleu.metrics import BLEU

from regard.errors import CorpusError
from regard.evaluation.scores import ScoreSettings, score

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
