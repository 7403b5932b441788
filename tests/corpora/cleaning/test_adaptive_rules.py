import pytest

from regard.corpora.cleaning.adaptive_rules import choose_leaks, choose_ratio
from regard.corpora.cleaning.pair_filters import CleaningReport, CleaningSettings, clean
from regard.corpora.corpus import Pair
from regard.corpora.splits import drop_leaks

ORDINARY = [Pair("word " * n, "mot " * n) for n in range(2, 30)]
LONG = [Pair("run " * n, "RUN LEFT NOW " * 4 * n) for n in range(3, 20)]


def test_an_ordinary_corpus_keeps_the_usual_ratio():
    assert choose_ratio(ORDINARY) == (6.0, "")
    assert choose_ratio([]) == (6.0, "")


def test_a_corpus_of_long_targets_is_not_dropped_for_them():
    chosen = choose_ratio(LONG)
    settings = CleaningSettings(max_ratio=chosen.value)
    kept = clean(LONG, settings, ("und", "und"), CleaningReport())
    assert list(kept) == LONG
    assert "as is normal in this corpus" in chosen.reason
    assert not list(clean(LONG, CleaningSettings(), ("und", "und"), CleaningReport()))


def test_a_few_broken_pairs_do_not_decide():
    assert choose_ratio([*ORDINARY, Pair("a", "b" * 900), Pair("c" * 900, "d")]).value == 6.0


@pytest.mark.parametrize(("repeats", "rule"), [(10, "source"), (200, "either")])
def test_leaks_by_source_alone_where_targets_repeat(repeats, rule):
    pairs = [Pair(f"say {n}", f"answer {n % repeats}") for n in range(400)]
    held_out = [Pair("new one", "Answer  1"), Pair("new two", "answer 2")]
    chosen = choose_leaks(pairs, held_out)
    assert chosen.value == rule
    report = CleaningReport()
    kept = list(drop_leaks(pairs, held_out, report, chosen.value))
    assert len(kept) >= 0.9 * len(pairs)
