import re

import numpy as np
import pytest

from regard.pipelines.markup.word_spans import TextLinks, WordSpans, sentence_links
from regard.text.sentence_splitter import Span


def side(text):
    return WordSpans(text, [Span(*found.span()) for found in re.finditer(r"\w+", text)])


def test_words_between_places():
    text = side("Paul aime la mer.")
    assert text.overlapping(2, 6) == range(0, 2)
    assert text.overlapping(4, 5) == range(1, 1)
    assert text.within(2, 13) == range(1, 3)
    assert text.within(6, 8) == range(2, 2)


@pytest.mark.parametrize(
    ("text", "number", "space_in_gap"),
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
def test_marks_belong_to_a_word_or_the_next(text, number, space_in_gap):
    assert side(text).space_in_gap(number) == space_in_gap


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


def test_a_seam_among_many_marks_is_looked_for_once():
    marked = side("a" + " *" * 5000 + " b")
    assert marked.space_in_gap(1) is marked.space_in_gap(1)
