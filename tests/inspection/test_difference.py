import pytest

from regard.inspection.difference import Stretch, compare_words


def stretches(before, after):
    return [
        (" ".join(one.before), " ".join(one.after))
        for one in compare_words(before.split(), after.split())
    ]


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
    ],
)
def test_words_agree_or_differ(before, after, wanted):
    assert stretches(before, after) == wanted


def test_long_texts_are_compared_word_by_word():
    """Words that occur often are words too: no rule of thumb takes them for junk."""
    long = ["the"] * 300
    assert compare_words(long, [*long, "end"]) == [
        Stretch(tuple(long), tuple(long)),
        Stretch((), ("end",)),
    ]
    assert [one.same for one in compare_words(long, [*long, "end"])] == [True, False]
