from collections import Counter

from regard.corpora.concatenation import concatenate_pairs
from regard.corpora.corpus import Pair

PAIRS = [Pair(f"s{number}", f"t{number}") for number in range(1000)]


def test_nothing_is_lost_and_sides_stay_together():
    joined = list(concatenate_pairs(PAIRS, 4))
    assert " ".join(pair.source for pair in joined).split() == [pair.source for pair in PAIRS]
    for pair in joined:
        assert pair.target == pair.source.replace("s", "t")


def test_any_number_is_as_likely_and_none_is_larger():
    sizes = Counter(len(pair.source.split()) for pair in concatenate_pairs(PAIRS, 4))
    assert sizes.keys() == {1, 2, 3, 4}
    assert min(sizes.values()) > 0.7 * max(sizes.values())


def test_the_same_pairs_are_joined_in_the_same_way():
    assert list(concatenate_pairs(PAIRS, 3)) == list(concatenate_pairs(PAIRS, 3))


def test_one_leaves_them_alone():
    assert list(concatenate_pairs(PAIRS, 1)) == PAIRS
    assert list(concatenate_pairs([], 4)) == []
