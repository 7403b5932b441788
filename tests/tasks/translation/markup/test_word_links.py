import re

import numpy as np
import pytest

from regard.alignment.extraction import AlignmentSettings
from regard.alignment.run_alignment import best_alignment
from regard.tasks.translation.markup.word_links import (
    TextLinks,
    WordSpans,
    link_words,
    sentence_links,
    sinkhorn,
)
from regard.text.segmentation import Span

SETTINGS = AlignmentSettings()


def words(text, spans):
    return [text[slice(*span)] for span in spans]


def test_words_without_a_model_are_linked_by_position():
    [linked] = link_words(None, [("un deux, trois quatre", "one two")], SETTINGS)
    assert words("un deux, trois quatre", linked.source) == ["un", "deux", "trois", "quatre"]
    np.testing.assert_allclose(linked.weights, [[0.25, 0.25, 0, 0], [0, 0, 0.25, 0.25]])
    [linked] = link_words(None, [("", "one")], SETTINGS)
    assert linked.weights.shape == (1, 0)


def test_words_are_linked_by_attention(translator):
    run = translator.runs[0]
    pairs = [("Jane visite l'Afrique.", "Jane visits Africa."), ("", "")]
    linked, empty = link_words(run, pairs, best_alignment(run))
    assert words(pairs[0][0], linked.source) == ["Jane", "visite", "l", "Afrique"]
    assert words(pairs[0][1], linked.target) == ["Jane", "visits", "Africa"]
    assert linked.weights.shape == (3, 4)
    np.testing.assert_allclose(linked.weights.sum(1), 1)
    assert empty.weights.shape == (0, 0)


def test_words_of_long_sentences_are_linked_by_position(translator):
    long = "la mer " * 60
    [linked] = link_words(translator.runs[0], [(long, long)], SETTINGS)
    assert len(linked.source) == 120
    np.testing.assert_allclose(linked.weights, np.eye(120) / 120, atol=1e-12)


def test_scripts_without_spaces_are_cut_into_tokens(translator):
    text = "日本語です a"
    [linked] = link_words(translator.runs[0], [(text, text)], SETTINGS)
    found = words(text, linked.source)
    assert found[-1] == "a"
    assert len(found) > 2
    assert "".join(found[:-1]) == "日本語です"


def test_a_latin_word_within_such_a_script_is_one_word(translator):
    text = "東京でJaneです"
    [linked] = link_words(translator.runs[0], [(text, text)], SETTINGS)
    assert "Jane" in words(text, linked.source)
    [linked] = link_words(None, [(text, "a b")], SETTINGS)
    assert words(text, linked.source) == ["東", "京", "で", "Jane", "で", "す"]


def test_sinkhorn_normalizes_rows_and_columns():
    weights = np.array([[0.9, 0.1], [0.6, 0.4], [0.0, 0.0]])
    normalized = sinkhorn(weights, 1)
    np.testing.assert_allclose(normalized.sum(1), [1, 1, 0])
    assert normalized[1, 1] > 0.5
    assert sinkhorn(weights, 0) is weights
    assert sinkhorn(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("rounds", [1, 5, 50])
def test_sinkhorn_keeps_permutations(rounds):
    np.testing.assert_allclose(sinkhorn(np.eye(3), rounds), np.eye(3))


def side(text):
    return WordSpans(text, [Span(*found.span()) for found in re.finditer(r"\w+", text)])


def test_words_between_places():
    text = side("Paul aime la mer.")
    assert text.overlapping(2, 6) == range(0, 2)
    assert text.overlapping(4, 5) == range(1, 1)
    assert text.within(2, 13) == range(1, 3)
    assert text.within(6, 8) == range(2, 2)


@pytest.mark.parametrize(
    ("text", "number", "space"),
    [
        ("a b", 1, (1, 2)),
        ("a, b", 1, (2, 3)),
        ("a (b", 1, (1, 2)),
        ("a. (b", 1, (2, 3)),
        ("l'a", 1, (2, 2)),
        ("a ! b", 1, (3, 4)),
        ("a « b", 1, (1, 2)),
        ("a » (« b", 1, (3, 4)),
        ("« a", 0, (0, 0)),
        ("a !", 1, (3, 3)),
        ("a", 1, (1, 1)),
    ],
)
def test_marks_belong_to_a_word_or_the_next(text, number, space):
    assert side(text).spaces[number] == space


def two_sentences():
    first = sentence_links(range(2), range(3), np.array([[1.0, 3.0], [0, 0], [0, 2]]))
    second = sentence_links(range(2, 3), range(3, 5), np.ones((2, 1)))
    return TextLinks([first, second])


def test_shares_of_words():
    shares = two_sentences().shares(range(1, 2), range(5))
    assert shares.first == 0
    np.testing.assert_allclose(shares.values, [0.75, 0.5, 1])
    shares = two_sentences().shares(range(1, 3), range(2, 5))
    assert shares.first == 2
    np.testing.assert_allclose(shares.values, [1, 1, 1])


def test_gaps_between_sentences_are_between_their_translations():
    links = two_sentences()
    assert [links.gap_scores(number).first for number in (0, 2, 3)] == [0, 3, 5]
    assert all(len(links.gap_scores(number).values) == 1 for number in (0, 2, 3))


def test_a_gap_within_a_sentence_has_most_words_on_their_side():
    links = TextLinks([sentence_links(range(3), range(3), np.eye(3)[[1, 0, 2]])])
    assert [int(links.gap_scores(number).values.argmax()) for number in (1, 2)] in ([0, 2], [2, 2])
    straight = TextLinks([sentence_links(range(3), range(3), np.eye(3))])
    assert [int(straight.gap_scores(number).values.argmax()) for number in (1, 2)] == [1, 2]


def test_a_text_without_sentences():
    assert TextLinks([]).gap_scores(0).first == 0
    assert len(TextLinks([]).shares(range(0), range(0)).values) == 0
