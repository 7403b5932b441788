from types import SimpleNamespace

import pytest
import torch

from regard.corpora.pairs import Pair
from regard.errors import CorpusError, SettingsError
from regard.inspection.alignment import AlignmentSettings
from regard.inspection.record import Attention, Axis
from regard.serving import dictionary
from regard.serving.dictionary import (
    Entry,
    learn_dictionary,
    read_dictionary,
    read_unknown,
    write_dictionary,
)
from regard.text.build import Tokenizers, train_tokenizer
from regard.text.settings import TokenizerSettings

PAIRS = [
    Pair("la mer", "the sea"),
    Pair("la mer.", "the sea!"),
    Pair("la lune", "the moon"),
    Pair("mer", "ocean"),
    Pair("une lune", "one the"),
    Pair("", "nothing"),
    Pair("", ""),
]


def diagonal(run, pairs):
    """Each target token looks at the source token of its number, or at EOS."""
    for pair in pairs:
        size = len(pair.target) + 1, len(pair.source) + 1
        layers = torch.zeros(1, 1, *size)
        for row in range(size[0]):
            layers[..., row, min(row, size[1] - 1)] = 1.0
        yield Attention("cross", layers, Axis((), (), ()), Axis((), (), ()))


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(dictionary, "attend_tokens", diagonal)
    # "lune" and "moon" are unknown, and are counted all the same
    words = train_tokenizer(["la mer. the sea! une ocean one"], TokenizerSettings(kind="words"))
    return SimpleNamespace(
        tokenizers=Tokenizers(words, words),
        model=SimpleNamespace(limit=None),
        recipe=SimpleNamespace(training=SimpleNamespace(max_tokens=8)),
    )


def learn(run, pairs=PAIRS, **options):
    return learn_dictionary(run, pairs, AlignmentSettings(), **{"min_count": 1} | options)


def test_words_are_counted_as_they_are_aligned(run):
    assert learn(run) == [
        Entry("la", "the", 3, 1.0),
        Entry("lune", "moon", 1, 0.5),
        Entry("mer", "sea", 2, 2 / 3),
        Entry("une", "one", 1, 1.0),
    ]


def test_what_is_seldom_aligned_is_left_out(run):
    assert [entry.source for entry in learn(run, min_count=2)] == ["la", "mer"]
    assert learn(run, min_count=4) == []
    assert learn(run, []) == []


def test_of_equals_the_first_in_their_order(run):
    pairs = [Pair("mer", "sea"), Pair("mer", "ocean")]
    assert learn(run, pairs) == learn(run, pairs[::-1]) == [Entry("mer", "ocean", 1, 0.5)]


def test_a_rare_word_is_no_article(run):
    pairs = [*[Pair("la", "the")] * 9, *[Pair("lune", "the")] * 3, *[Pair("lune", "moon")] * 2]
    assert learn(run, pairs)[1] == Entry("lune", "moon", 2, 0.4)


def test_pairs_that_are_too_long_are_left_out(run):
    assert learn(run, [Pair("mer " * 9, "sea"), Pair("mer", "sea " * 9)]) == []


def test_a_trained_model_fills_a_dictionary(translator):
    [run] = translator.runs
    pairs = [Pair("Jane danse.", "Jane dances."), Pair("Elle danse.", "She dances.")] * 2
    entries = learn_dictionary(run, iter(pairs), AlignmentSettings(), min_count=2)
    assert entries
    assert [entry.source for entry in entries] == sorted({entry.source for entry in entries})
    assert {entry.source for entry in entries} <= {"Jane", "Elle", "danse"}
    assert {entry.target for entry in entries} <= {"Jane", "She", "dances"}
    assert all(entry.count >= 2 and 0 < entry.probability <= 1 for entry in entries)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "fr-en.tsv"
    write_dictionary([Entry("la", "the", 9, 1.0), Entry("mer", "sea", 2, 2 / 3)], path)
    assert path.read_text() == "la\tthe\t9\t1.0000\nmer\tsea\t2\t0.6667\n"
    assert read_dictionary(path) == {"la": "the", "mer": "sea"}


def test_a_dictionary_by_hand(tmp_path):
    path = tmp_path / "hand.tsv"
    path.write_text("York\tNew York\n\n e\u0301te\u0301 \tsummer\n€\tEUR\n")
    assert read_dictionary(path) == {"York": "New York", "été": "summer", "€": "EUR"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\nc\n", r"d\.tsv: line 2: expected 2 columns.* or 4.*; found 1 in 'c'"),
        ("a\tb\tc\n", r"line 1: expected 2 columns.*; found 3 in 'a\\tb\\tc'"),
        ("a\t\n", "line 1: the translation is missing: 'a' stands alone"),
        ("\tb\n", "line 1: the word is missing: 'b' stands alone"),
        ("a\tb\n\na\tc\n", "line 3: 'a' was translated on line 1 already; keep one of them"),
        ("New York\tx\n", "'New York' can never be looked up: .* and this is 2: New York"),
        ("l'eau\twater\n", "\"l'eau\" can never be looked up: .* and this is 3: l ' eau"),
        ("\n \n", r"d\.tsv: holds no entries: a line has a word, a tab and a translation"),
    ],
)
def test_a_dictionary_that_is_none(tmp_path, text, message):
    path = tmp_path / "d.tsv"
    path.write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_dictionary(path)


def test_what_is_no_utf8_is_told_with_its_line(tmp_path):
    path = tmp_path / "d.tsv"
    path.write_bytes(b"a\tb\ncaf\xe9\tcoffee\n")
    with pytest.raises(CorpusError, match=r"d\.tsv: line 2: not UTF-8"):
        read_dictionary(path)


def test_the_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.tsv").write_text("a\tb\n")
    assert read_unknown("keep") is None
    assert read_unknown("copy") == {}
    assert read_unknown("d.tsv") == {"a": "b"}
    with pytest.raises(SettingsError, match=r"--unknown cpoy: neither keep nor copy, nor a file"):
        read_unknown("cpoy")
