import pytest

from regard.text.word_index import word_ids


@pytest.mark.parametrize(
    ("spellings", "expected"),
    [
        ([], []),
        ([b" Jane", b" vis", b"its"], [0, 1, 1]),
        ([b" ", b" a", b" ", b"b", b" "], [None, 0, None, 1, None]),
        ([b"", b"a", b"", b"b", b""], [None, 0, None, 0, None]),
        ([b"a", b"\t", b"b", "\u3000".encode(), b"c"], [0, None, 1, None, 2]),
        # é, then a no-break space, in single bytes
        ([b"a", b"\xc3", b"\xa9", b"\xc2", b"\xa0", b"b"], [0, 0, 0, None, None, 1]),
        # a special id between the bytes of a character
        ([b"\xc3", b"", b"\xa9"], [0, None, 0]),
        # bytes that are no character: one alone, one before a word, one at the end
        ([b"\x80", b" a"], [0, 1]),
        ([b"\xe3", b" a", b"b"], [0, 1, 1]),
        ([b"a", b" ", b"\xe3", b"\x80"], [0, None, 1, 1]),
        ([b"\xe0", b"\x80", b" a"], [0, 0, 1]),
    ],
)
def test_each_spelling_has_the_word_it_is_part_of(spellings, expected):
    assert word_ids(spellings) == expected
    words = b"".join(spellings).decode("utf-8", "replace").split()
    assert {*expected} - {None} == {*range(len(words))}


def test_a_spelling_of_two_words_has_the_first():
    assert word_ids([b"a b", b"c"]) == [0, 1]
