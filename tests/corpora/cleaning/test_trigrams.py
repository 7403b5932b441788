import numpy as np

from regard.corpora.cleaning.trigrams import find_trigrams, log_probability


def test_trigrams_lie_within_a_text_and_ignore_case_and_signs():
    lines = find_trigrams(["Abc!", "", "abc 12 D", "abc"])
    assert lines.sizes.tolist() == [4, 1, 6, 4]  # with the spaces around words
    first, last = lines.bucket[:4], lines.bucket[-4:]
    np.testing.assert_array_equal(first, last)
    assert lines.counts().sum() == len(lines.bucket) == 15
    assert lines.counts(np.array([False, False, True, False])).sum() == 6
    assert lines.sums(np.ones(15)).tolist() == [4, 1, 6, 4]


def test_no_texts():
    assert len(find_trigrams([]).bucket) == 0


def test_what_was_seen_is_likelier():
    logs = log_probability(np.array([3.0, 0.0]))
    assert logs[0] > logs[1]
