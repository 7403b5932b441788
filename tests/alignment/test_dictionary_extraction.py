from types import SimpleNamespace

import pytest
import torch

from regard.alignment import dictionary_extraction
from regard.alignment.dictionary import DictionaryEntry
from regard.alignment.dictionary_extraction import extract_dictionary
from regard.alignment.extraction import AlignmentSettings
from regard.corpora.corpus import Pair
from regard.inspection.recording.attention_map import AttentionMaps
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
        yield AttentionMaps("cross", layers, pair.rows, pair.columns)


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(dictionary_extraction, "token_attention", diagonal)
    # "lune" and "moon" are unknown, and are counted all the same
    words = train_tokenizer(["la mer. the sea! une ocean one"], TokenizerSettings(kind="words"))
    return SimpleNamespace(
        tokenizers=Tokenizers(words, words),
        longest=8,
    )


def learn(run, pairs=PAIRS, **options):
    return extract_dictionary(run, pairs, AlignmentSettings(), **{"min_count": 1} | options)


def test_words_are_counted_as_they_are_aligned(run):
    assert learn(run) == [
        DictionaryEntry("la", "the", 3, 1.0),
        DictionaryEntry("lune", "moon", 1, 0.5),
        DictionaryEntry("mer", "sea", 2, 2 / 3),
        DictionaryEntry("une", "one", 1, 1.0),
    ]


def test_what_is_seldom_aligned_is_left_out(run):
    assert [entry.source for entry in learn(run, min_count=2)] == ["la", "mer"]
    assert learn(run, min_count=4) == []
    assert learn(run, []) == []


def test_of_equals_the_first_in_their_order(run):
    pairs = [Pair("mer", "sea"), Pair("mer", "ocean")]
    assert learn(run, pairs) == learn(run, pairs[::-1]) == [DictionaryEntry("mer", "ocean", 1, 0.5)]


def test_a_rare_word_is_no_article(run):
    pairs = [*[Pair("la", "the")] * 9, *[Pair("lune", "the")] * 3, *[Pair("lune", "moon")] * 2]
    assert learn(run, pairs)[1] == DictionaryEntry("lune", "moon", 2, 0.4)


def test_pairs_that_are_too_long_are_left_out(run):
    assert learn(run, [Pair("mer " * 9, "sea"), Pair("mer", "sea " * 9)]) == []


def test_a_trained_model_fills_a_dictionary(translator):
    [run] = translator.runs
    pairs = [Pair("Jane danse.", "Jane dances."), Pair("Elle danse.", "She dances.")] * 2
    entries = extract_dictionary(run, iter(pairs), AlignmentSettings(), min_count=2)
    assert entries
    assert [entry.source for entry in entries] == sorted({entry.source for entry in entries})
    assert {entry.source for entry in entries} <= {"Jane", "Elle", "danse"}
    assert {entry.target for entry in entries} <= {"Jane", "She", "dances"}
    assert all(entry.count >= 2 and 0 < entry.probability <= 1 for entry in entries)
