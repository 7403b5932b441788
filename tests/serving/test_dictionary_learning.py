from types import SimpleNamespace

import pytest
import torch

from regard.corpora.pairs import Pair
from regard.inspection.alignment import AlignmentSettings
from regard.inspection.record import Attention, Axis
from regard.serving import aligning
from regard.serving.dictionary import Entry
from regard.serving.dictionary_learning import learn_dictionary
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


def diagonal(run, pairs, change):
    """Each target token looks at the source token of its number, or at EOS."""
    for pair in pairs:
        size = len(pair.target) + 1, len(pair.source) + 1
        layers = torch.zeros(1, 1, *size)
        for row in range(size[0]):
            layers[..., row, min(row, size[1] - 1)] = 1.0
        yield Attention("cross", layers, Axis((), (), ()), Axis((), (), ()))


@pytest.fixture
def run(monkeypatch):
    monkeypatch.setattr(aligning, "attend_tokens", diagonal)
    # "lune" and "moon" are unknown, and are counted all the same
    words = train_tokenizer(["la mer. the sea! une ocean one"], TokenizerSettings(kind="words"))
    return SimpleNamespace(
        tokenizers=Tokenizers(words, words),
        longest=8,
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
