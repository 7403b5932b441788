import pytest

from regard.evaluation.gleu import sentence_gleu


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


def test_two_empty_sentences_agree():
    assert sentence_gleu([], []) == 1


def test_ids_do_as_well_as_words():
    assert sentence_gleu((7, 8, 9), [7, 8, 5]) == 0.5
