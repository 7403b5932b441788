from collections import Counter

import numpy as np
import pytest

from regard.corpora.labels import hold_out, label_set
from regard.errors import CorpusError


def names(train, **others):
    notes = []
    return label_set(
        {"train": train, **others},
        lambda split: "mine.tsv" if split == "train" else f"{split}.tsv",
        notes.append,
    ), notes


def test_labels_are_sorted_and_nothing_is_said_of_plain_ones():
    assert names(list("baab"), valid=list("ab")) == (("a", "b"), [])


@pytest.mark.parametrize(("train", "said"), [([], "there is none"), (["a"] * 3, "all 3 have 'a'")])
def test_fewer_than_two_labels_are_refused(train, said):
    with pytest.raises(CorpusError, match=f"mine.tsv: .* two labels or more .*{said}"):
        names(train)


def test_a_label_never_seen_in_training_is_refused():
    with pytest.raises(
        CorpusError, match=r"^test.tsv: test has labels that no training example has: 'c'; .*"
    ):
        names(list("ab"), test=list("abc"))


def test_rare_labels_are_noted():
    _, notes = names(list("aabbc"), valid=list("ab"))
    assert notes == [
        "mine.tsv: only one training example has each of these labels: 'c'",
        "valid.tsv: no example of valid has these labels: 'c'",
    ]


def test_many_labels_are_not_all_named():
    with pytest.raises(CorpusError, match="'5', '6' and 3 more; there are"):
        names(list("ab"), test=[str(number) for number in range(2, 10)])


def test_each_label_gives_its_share_and_keeps_one_example():
    labels = ["a"] * 60 + ["b"] * 30 + ["c"]
    chosen = hold_out(labels, [str(row) for row in range(91)], 30, seed=1)
    assert Counter(np.array(labels)[chosen].tolist()) == {"a": 20, "b": 10}


def test_the_choice_depends_on_keys_and_seed_alone():
    labels, keys = ["a", "b"] * 20, [str(row) for row in range(40)]
    chosen = hold_out(labels, keys, 10, seed=1)
    again = hold_out(labels[::-1], keys[::-1], 10, seed=1)[::-1]
    assert chosen.tolist() == again.tolist()
    assert chosen.tolist() != hold_out(labels, keys, 10, seed=2).tolist()


def test_examples_with_one_key_stay_together():
    labels, keys = ["a", "b"] * 20, [str(row // 4) for row in range(40)]
    chosen = hold_out(labels, keys, 12, seed=1).reshape(10, 4)
    assert (chosen.all(1) | ~chosen.any(1)).all()
    assert chosen.any()


def test_a_key_with_several_labels_does_not_take_the_last_of_one():
    labels, keys = ["a"] * 9 + ["b"], ["same"] * 2 + [str(row) for row in range(7)] + ["same"]
    for seed in range(10):
        chosen = hold_out(labels, keys, 5, seed=seed)
        assert not chosen[9]
