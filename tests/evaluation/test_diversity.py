import pytest

from regard.errors import CorpusError
from regard.evaluation.diversity import commonest, distinct


def test_distinct_counts_unlike_ngrams_among_all():
    texts = ["I do not know", "I do not", "know"]
    assert distinct(texts, 1) == 4 / 8
    assert distinct(texts, 2) == 3 / 5
    assert distinct(texts, 2, lambda text: text.replace(" ", "")) == 8 / 17


def test_no_ngram_crosses_two_texts():
    assert distinct(["a", "b"], 2) == 0.0
    assert distinct([], 1) == 0.0
    with pytest.raises(ValueError, match="n=0"):
        distinct(["a"], 0)


def test_the_commonest_of_equals_is_the_first():
    assert commonest(["yes", "no", "no", "yes"]) == "yes"
    with pytest.raises(CorpusError, match="no commonest answer"):
        commonest([])
