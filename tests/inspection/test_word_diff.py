import pytest

from regard.inspection.word_diff import DiffSpan, diff_words, separator


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("", "", []),
        ("a b", "a b", [("a b", "a b")]),
        ("a b", "", [("a b", "")]),
        ("", "a b", [("", "a b")]),
        ("a b c d", "a x d", [("a", "a"), ("b c", "x"), ("d", "d")]),
        ("a b", "a b c", [("a b", "a b"), ("", "c")]),
        ("a a b", "a b", [("a", ""), ("a b", "a b")]),
        ("猫が GNU を見る", "猫が GNU を聞く", [("猫が GNU を", "猫が GNU を"), ("見る", "聞く")]),
    ],
)
def test_words_agree_or_differ(before, after, wanted):
    assert diff_words(before, after) == [DiffSpan(*one) for one in wanted]


def test_long_texts_are_compared_word_by_word():
    """Words that occur often are words too: no rule of thumb takes them for junk."""
    long = " ".join(["the"] * 300)
    found = diff_words(long, f"{long} end")
    assert found == [DiffSpan(long, long), DiffSpan("", "end")]
    assert [one.same for one in found] == [True, False]


@pytest.mark.parametrize(
    ("left", "right", "between"),
    [("", "a", ""), ("a", "b", " "), ("を", "b", ""), ("a", "見", ""), ("。", "、", "")],
)
def test_parts_have_a_space_between_them_where_scripts_do(left, right, between):
    assert separator(left, right) == between
