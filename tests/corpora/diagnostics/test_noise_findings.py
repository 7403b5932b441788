from dataclasses import replace

import pytest

from regard.corpora.cleaning.pair_filters import CleaningSettings
from regard.corpora.corpus import Corpus, Pair
from regard.corpora.diagnostics.corpus_report import analyze_corpus
from regard.corpora.diagnostics.noise_findings import interpret_noise
from regard.corpora.diagnostics.noise_report import NoiseRate, NoiseReport
from regard.corpora.splits import SplitSettings


@pytest.fixture(scope="module")
def found():
    pairs = [Pair(f"a {n}", f"b {n}") for n in range(20)]
    corpus = Corpus("mine", ("en", "de"), {"train": lambda: iter(pairs)})
    return analyze_corpus(corpus, CleaningSettings(), SplitSettings())


def told(found, **noise):
    return interpret_noise(replace(found, noise=NoiseReport(1000, True, **noise)))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("swapped", "have source and target exchanged"),
        ("source_language", "have a source in another language"),
        ("target_language", "have a target in another language"),
        ("random", "do not belong together"),
        ("truncated", "have a target that is cut short"),
    ],
)
def test_much_is_a_warning_and_says_where(found, name, words):
    [finding] = [
        one
        for one in told(found, paired=1000, **{name: NoiseRate(0.1, 100, (3, 1000))})
        if one.level != "ok"
    ]
    assert finding.level == "warning"
    assert f"10.0% {words}" in finding.text
    assert "line 3, line 1,000" in finding.text


def test_what_clean_corpora_have_too_is_not_told(found):
    little = NoiseRate(0.0005, 1, (3,))
    free = NoiseRate(0.011, 11, (3,))
    [finding] = told(
        found, swapped=little, target_language=little, paired=1000, random=free, truncated=free
    )
    assert finding.level == "ok"


def test_pairs_by_chance_look_cut_short_too(found):
    random, cut = NoiseRate(0.1, 100, (3,)), NoiseRate(0.03, 30, (4,))
    assert len(told(found, paired=1000, random=random, truncated=cut)) == 2


def test_lines_of_several_files(found):
    several = replace(found, file_starts=(("a.tsv", 0), ("b.tsv", 10)))
    assert [several.place("train", line) for line in (10, 11)] == [
        "line 10 of a.tsv",
        "line 1 of b.tsv",
    ]
    assert several.place("test", 11) == "line 11"
