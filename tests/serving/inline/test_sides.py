import re

import numpy as np
import pytest

from regard.serving.inline.sides import Blocks, Side, block
from regard.text.sentences import Span


def side(text):
    return Side(text, [Span(*found.span()) for found in re.finditer(r"\w+", text)])


def test_words_between_places():
    text = side("Paul aime la mer.")
    assert text.touched(2, 6) == range(0, 2)
    assert text.touched(4, 5) == range(1, 1)
    assert text.within(2, 13) == range(1, 3)
    assert text.within(6, 8) == range(2, 2)


@pytest.mark.parametrize(
    ("text", "number", "seam"),
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
def test_marks_belong_to_a_word_or_the_next(text, number, seam):
    assert side(text).seam(number) == seam


def two_sentences():
    first = block(range(2), range(3), np.array([[1.0, 3.0], [0, 0], [0, 2]]))
    second = block(range(2, 3), range(3, 5), np.ones((2, 1)))
    return Blocks([first, second])


def test_shares_of_words():
    shares = two_sentences().shares(range(1, 2), range(5))
    assert shares.first == 0
    np.testing.assert_allclose(shares.values, [0.75, 0.5, 1])
    shares = two_sentences().shares(range(1, 3), range(2, 5))
    assert shares.first == 2
    np.testing.assert_allclose(shares.values, [1, 1, 1])


def test_gaps_between_sentences_are_between_their_translations():
    blocks = two_sentences()
    assert [blocks.seams(number).first for number in (0, 2, 3)] == [0, 3, 5]
    assert all(len(blocks.seams(number).values) == 1 for number in (0, 2, 3))


def test_a_gap_within_a_sentence_has_most_words_on_their_side():
    blocks = Blocks([block(range(3), range(3), np.eye(3)[[1, 0, 2]])])
    assert [int(blocks.seams(number).values.argmax()) for number in (1, 2)] in ([0, 2], [2, 2])
    straight = Blocks([block(range(3), range(3), np.eye(3))])
    assert [int(straight.seams(number).values.argmax()) for number in (1, 2)] == [1, 2]


def test_a_text_without_sentences():
    assert Blocks([]).seams(0).first == 0
    assert len(Blocks([]).shares(range(0), range(0)).values) == 0


def test_a_seam_among_many_marks_is_looked_for_once():
    marked = side("a" + " *" * 5000 + " b")
    assert marked.seam(1) is marked.seam(1)
