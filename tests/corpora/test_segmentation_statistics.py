import pytest

from regard.corpora.corpus import Pair
from regard.corpora.segmentation_statistics import measure_segmentation
from regard.text.segmentation import KINDS, InputSettings

SENTENCES = [Pair(f"Elle part {n}.", f"She leaves {n}.") for n in "abcdefgh"] * 5


def learned(pairs):
    return measure_segmentation(pairs).settings()


def test_lines_of_one_sentence_are_split():
    assert learned(SENTENCES) == InputSettings(split_sentences=True, pass_through=KINDS)


def test_several_sentences_are_split_where_both_sides_agree():
    multi_sentence = [Pair("Elle part. Il dort.", "She leaves. He sleeps.")] * 10
    assert learned(SENTENCES + multi_sentence).split_sentences
    assert not learned(
        SENTENCES + multi_sentence * 9
    ).split_sentences  # whole lines are what is usual
    unlike = [Pair("Elle part. Il dort.", "She leaves and he sleeps.")] * 10
    assert not learned(SENTENCES + unlike).split_sentences


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("4 mar. 2021", "2021-03-04"),
        ("jump left twice", "LEFT JUMP LEFT JUMP"),
        ("Жанна", "Zhanna"),
    ],
)
def test_what_are_no_sentences_go_in_whole(source, target):
    found = learned([Pair(source, target)] * 20)
    assert not found.split_sentences
    assert "layout" not in found.pass_through
    assert {"numbers", "symbols", "codes"} <= set(found.pass_through)


@pytest.mark.parametrize(
    ("kind", "source", "target"),
    [
        ("numbers", "21", "vingt et un"),
        ("symbols", "😀", "rire"),
        ("codes", "https://a.b", "le site a"),
        ("layout", "1. Mai ist frei.", "May 1st is free."),
    ],
)
def test_what_is_translated_does_not_pass(kind, source, target):
    shown = SENTENCES + [Pair(source, target)] * 5
    assert learned(shown).pass_through == tuple(one for one in KINDS if one != kind)
    assert learned(shown + [Pair(source, source)] * 5).pass_through == KINDS
    assert learned(SENTENCES * 3 + [Pair(source, target)] * 2).pass_through == KINDS  # a slip


def test_of_nothing_follows_nothing_odd():
    assert learned([]) == InputSettings()
