import importlib.util
import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER

from regard.errors import CorpusError, SettingsError
from regard.evaluation.metrics import MetricOptions, build_metric, sentence_gleu

HYPOTHESES = ["Jane visits Africa in September", "the blue  house .", "", "He does not sleep"]
REFERENCES = ["Jane visits Africa in September .", "The blue house.", "why ?", "He does not sleep"]
DIRECT = {
    "bleu": BLEU(),
    "chrf": CHRF(),
    "chrf++": CHRF(word_order=2),
    "ter": TER(),
}


def scored(name, hypotheses, references, tokenize="13a", lowercase=False):
    metric = build_metric(name, MetricOptions(tokenize, lowercase=lowercase))
    return metric.value(metric.count(hypotheses, references).sum(0))


@pytest.mark.parametrize("name", sorted(DIRECT))
def test_scores_are_those_of_sacrebleu(name):
    want = DIRECT[name].corpus_score(HYPOTHESES, [REFERENCES])
    metric = build_metric(name, MetricOptions("13a"))
    counts = metric.count(HYPOTHESES, REFERENCES)
    assert metric.value(counts.sum(0)) == pytest.approx(want.score, abs=1e-12)
    assert 0 < want.score < 100
    assert metric.name == want.name
    assert metric.signature(0, 1) == str(DIRECT[name].get_signature())


@pytest.mark.parametrize("name", sorted(DIRECT))
def test_counts_of_some_lines_score_those_lines(name):
    metric = build_metric(name, MetricOptions("13a"))
    some = metric.count(HYPOTHESES, REFERENCES)[[1, 3]].sum(0)
    want = DIRECT[name].corpus_score(HYPOTHESES[1::2], [REFERENCES[1::2]]).score
    assert metric.value(some) == pytest.approx(want, abs=1e-12)


@pytest.mark.parametrize("tokenize", ["13a", "none", "intl", "char", "zh"])
def test_bleu_cuts_lines_as_asked(tokenize):
    hypotheses, references = ["这是一个好 test-case."], ["这是一个坏 test-case!"]
    want = BLEU(tokenize=tokenize).corpus_score(hypotheses, [references]).score
    assert scored("bleu", hypotheses, references, tokenize) == pytest.approx(want, abs=1e-12)
    assert f"tok:{tokenize}" in build_metric("bleu", MetricOptions(tokenize)).signature(0, 1)


@pytest.mark.parametrize("name", ["bleu", "chrf", "gleu", "exact"])
def test_case_counts_unless_told_otherwise(name):
    lines, shouted = ["a small blue house"], ["A SMALL BLUE HOUSE"]
    assert scored(name, lines, shouted) == 0
    assert scored(name, lines, shouted, lowercase=True) == pytest.approx(100)
    assert "case:lc" in build_metric(name, MetricOptions("13a", lowercase=True)).signature(0, 1)


def test_exact_match_is_the_share_of_equal_lines_and_sees_one_kind_of_space():
    hypotheses = [" a  b ", "a b", "ab", "a\tb\n"]
    assert scored("exact", hypotheses, ["a b", "a c", "a b", "a b"]) == 50
    metric = build_metric("exact", MetricOptions("13a"))
    assert metric.signature(0, 7) == "nrefs:1|case:mixed|space:collapsed"
    assert metric.signature(9, 7) == "nrefs:1|bs:9|seed:7|case:mixed|space:collapsed"


def test_gleu_is_the_mean_over_lines_of_the_words_that_bleu_sees():
    hypotheses, references = ["Hello, world.", "a b c"], ["Hello , world .", "a b d"]
    assert scored("gleu", hypotheses, references) == pytest.approx(100 * (1 + 3 / 6) / 2)
    at_spaces = 100 * (0 + 3 / 6) / 2  # no word of the first line is one of its reference
    assert scored("gleu", hypotheses, references, "none") == pytest.approx(at_spaces)
    metric = build_metric("gleu", MetricOptions("none"))
    assert metric.name == "GLEU"
    assert metric.signature(0, 7) == "nrefs:1|case:mixed|tok:none|ngrams:1-4|mean:sentences"
    assert metric.signature(9, 7).startswith("nrefs:1|bs:9|seed:7|case:mixed|")


def test_only_ter_is_better_when_lower():
    names = "bleu", "chrf", "chrf++", "ter", "gleu", "exact"
    lower = [name for name in names if build_metric(name, MetricOptions("13a")).lower_is_better]
    assert lower == ["ter"]


def test_tokenized_text_is_warned_of_unless_declared(caplog):
    lines = ["a house ."] * 100
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        scored("bleu", lines, lines, "none")
        build_metric("bleu", MetricOptions("13a", warn=False)).count(lines, lines)
        assert not caplog.records
        scored("bleu", lines, lines, "13a")
        assert "forgot to detokenize" in caplog.text


@pytest.mark.parametrize("name", ["bleu", "gleu", "exact"])
def test_lines_must_pair_up(name):
    with pytest.raises(CorpusError, match=r"found 2 hypotheses, 3 references; is one of the files"):
        scored(name, ["a", "b"], ["a", "b", "c"])


def test_nothing_cannot_be_measured():
    with pytest.raises(CorpusError, match="nothing to measure: no hypotheses and no references"):
        scored("bleu", [], [])


@pytest.mark.skipif(importlib.util.find_spec("MeCab") is not None, reason="MeCab is installed")
def test_a_missing_tokenizer_says_what_to_install():
    with pytest.raises(SettingsError, match=r"'ja-mecab' needs .* pip install 'regard\[ja\]'"):
        build_metric("bleu", MetricOptions("ja-mecab"))


def test_a_tokenizer_whose_model_is_not_here_is_not_downloaded(monkeypatch, tmp_path):
    monkeypatch.setattr("regard.evaluation.metrics.SACREBLEU_DIR", str(tmp_path))
    with pytest.raises(SettingsError, match=r"regard downloads nothing: save https.* as .*models"):
        build_metric("bleu", MetricOptions("flores200"))


def test_counts_have_a_row_for_each_line():
    counts = build_metric("bleu", MetricOptions("13a")).count(HYPOTHESES, REFERENCES)
    assert counts.shape == (4, 10)  # two lengths, and matches and totals of four orders
    assert counts.dtype == np.float64


@pytest.mark.parametrize(
    ("hypothesis", "reference", "matches", "num_ngrams"),
    [
        ("a b c d", "a b c d", 10, 10),  # 4 + 3 + 2 + 1 n-grams
        ("a b c d e", "a b c d e", 14, 14),  # and none of five words
        ("a b c", "a b d", 3, 6),  # a, b, ab
        ("a b", "a b c d", 3, 10),  # a, b, ab: all that was said; recall is smaller
        ("a b c d", "a b", 3, 10),  # precision is smaller
        ("a a a", "a b", 1, 6),  # the one a of the reference matches once
        ("a a b", "a b a", 4, 6),  # a twice, b, ab
        ("b a", "a b", 2, 3),  # no order, no pair
        ("x", "a b", 0, 3),
        ("", "a", 0, 1),
        ("a", "", 0, 1),
    ],
)
def test_by_hand(hypothesis, reference, matches, num_ngrams):
    one, other = hypothesis.split(), reference.split()
    assert sentence_gleu(one, other) == pytest.approx(matches / num_ngrams, abs=1e-15)
    assert sentence_gleu(other, one) == sentence_gleu(one, other)


COCO = json.loads(Path(__file__).with_name("coco_captions.json").read_text(encoding="utf-8"))
"""Captions drawn from a list of phrases, and what pycocoevalcap 1.2 says of them:
`PTBTokenizer().tokenize`, then `Bleu(4).compute_score` and `Cider().compute_score`."""


def test_captions_with_several_references_score_as_the_evaluation_of_coco_has_it():
    references = [tuple(some) for some in COCO["references"]]
    for order, want in enumerate(COCO["bleu"], start=1):
        found = scored(f"bleu-{order}", COCO["hypotheses"], references, "coco")
        assert found == pytest.approx(100 * want, abs=1e-4)
    found = scored("cider", COCO["hypotheses"], references, "coco")
    assert found / 100 == pytest.approx(COCO["cider"], abs=1e-6)
    assert COCO["cider"] > 0.1


def test_signatures_tell_words_and_number_of_references():
    bleu, cider = (build_metric(name, MetricOptions("coco")) for name in ("bleu-2", "cider"))
    for metric in (bleu, cider):
        metric.count(["a b"], [("a b", "c d", "e f")])
    assert bleu.signature(0, 1).startswith("nrefs:3|case:mixed|eff:no|tok:coco-none|smooth:none|")
    assert cider.signature(0, 1) == (
        "nrefs:3|case:mixed|tok:coco|ngrams:1-4|sigma:6|idf:references"
    )
    cider.count(["a", "b"], [("a", "c"), ("b",)])
    assert cider.signature(0, 1).startswith("nrefs:var|")


@pytest.mark.parametrize("name", ["bleu-1", "gleu", "exact"])
def test_the_reference_that_agrees_most_counts(name):
    references = [("x y", "a b"), ("c d", "z z z")]
    assert scored(name, ["a b", "c d"], references) == pytest.approx(100)


def test_a_line_without_any_reference_is_an_error():
    with pytest.raises(CorpusError, match="line 2 of 2 has no reference"):
        scored("cider", ["a", "b"], [("a",), ()])


def test_two_empty_sentences_agree():
    assert sentence_gleu([], []) == 1


def test_ids_do_as_well_as_words():
    assert sentence_gleu((7, 8, 9), [7, 8, 5]) == 0.5


NEW_METRIC = """
import sys, types
from pathlib import Path
import regard.evaluation

path = Path(regard.evaluation.__file__).parent / "metrics.py"
table = "METRICS: dict[str, MetricSpec] = {"
entry = '"same": MetricSpec(exact_match, digits=4, validates=True, reported=True),'
source = path.read_text()
assert source.count(table) == 1
module = types.ModuleType("regard.evaluation.metrics")
sys.modules["regard.evaluation.metrics"] = module
exec(compile(source.replace(table, table + entry), path, "exec"), module.__dict__)

from regard.cli.display.training_progress import VALIDATION_DIGITS
from regard.evaluation.scores import ScoreSettings, score
from regard.tasks.translation.settings import TranslationValidationSettings

[found] = score(["a b"], ["a b"], ScoreSettings(metrics=("same",), resamples=0))
assert found.value == 100
assert TranslationValidationSettings(by="same").by == "same"
assert "same" in TranslationValidationSettings.model_json_schema()["properties"]["by"]["enum"]
assert VALIDATION_DIGITS["same"] == 4
assert "same" in module.VALIDATION_METRICS
assert "same" in module.REPORTED_METRICS
"""


def test_one_entry_in_the_table_adds_a_metric_everywhere():
    subprocess.run([sys.executable, "-c", NEW_METRIC], check=True)
