import pytest

from regard.alignment.dictionary import (
    DictionaryEntry,
    read_dictionary,
    read_unknown_option,
    write_dictionary,
)
from regard.errors import CorpusError, SettingsError


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "fr-en.tsv"
    write_dictionary(
        [DictionaryEntry("la", "the", 9, 1.0), DictionaryEntry("mer", "sea", 2, 2 / 3)], path
    )
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
        ("a\tb\n\na\tc\n", "line 3: 'a' already has a translation on line 1; keep one of them"),
        ("New York\tx\n", "'New York' can never be found: .* and this is 2 words: New York"),
        ("l'eau\twater\n", "\"l'eau\" can never be found: .* and this is 3 words: l ' eau"),
        ("\n \n", r"d\.tsv: has no entries: a line has a word, a tab and a translation"),
    ],
)
def test_a_dictionary_that_is_none(tmp_path, text, message):
    path = tmp_path / "d.tsv"
    path.write_text(text)
    with pytest.raises(CorpusError, match=message):
        read_dictionary(path)


def test_invalid_utf8_is_reported_with_its_line(tmp_path):
    path = tmp_path / "d.tsv"
    path.write_bytes(b"a\tb\ncaf\xe9\tcoffee\n")
    with pytest.raises(CorpusError, match=r"d\.tsv: line 2: not UTF-8"):
        read_dictionary(path)


def test_the_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.tsv").write_text("a\tb\n")
    assert read_unknown_option("keep") is None
    assert read_unknown_option("copy") == {}
    assert read_unknown_option("d.tsv") == {"a": "b"}
    with pytest.raises(SettingsError, match=r"--unknown cpoy: neither keep nor copy, nor a file"):
        read_unknown_option("cpoy")
