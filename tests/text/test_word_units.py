import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.word_units import (
    byte_word_ids,
    compared_words,
    count_units,
    detokenize,
    has_unspaced,
    merge_units,
    split_units,
    unit_spans,
)


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("", ""),
        ("Elle ne dort\u00a0pas, «\u202fdit-il\u202f».", "Elle ne dort pas, « dit-il »."),
        ("나는 「서울」에 간다.", "나는 「서울」에 간다."),
        ("नमस्ते दुनिया", "नमस्ते दुनिया"),
        ("これはペンです。", "こ れ は ペ ン で す 。"),
        ("か\u3099ｶﾞ葛\U000e0100", "か\u3099 ｶﾞ 葛\U000e0100"),
        ("本パッケージ、GRASS の HTML 版", "本 パ ッ ケ ー ジ 、 GRASS の HTML 版"),
        ("Debian12での(GNU/Linux)", "Debian12 で の ( GNU / Linux )"),
        ("我们！？(好)", "我 们 ！？( 好 )"),
        ("น้ำดื่มที่นี่", "น้ำ ดื่ ม ที่ นี่"),
        ("ខ្មែរ", "ខ្មែ រ"),
        ("ဗုဒ္ဓ", "ဗု ဒ္ဓ"),
    ],
)
def test_words_have_spaces_between_them_or_are_letters(text, units):
    assert split_units(text) == units.split()
    assert count_units(text) == len(units.split())


@given(st.text(alphabet=st.sampled_from("aé1 \t\u3000、(.漢かｶﾞ々ー〇กั้ำเကက္ខ្한\u200d\U00020000")))
def test_units_are_all_of_a_text_but_its_spaces(text):
    assert "".join(split_units(text)) == "".join(text.split())
    assert split_units(text) == [text[first:last] for first, last in unit_spans(text)]
    if not has_unspaced(text):
        assert split_units(text) == text.split()


def test_units_of_one_piece_become_one_word():
    merged = merge_units("これはペン です", begins={0, 2, 3})
    assert merged.words == ("これ", "は", "ペン", "です")
    assert merged.sizes == (2, 1, 2, 2)
    assert merged.word_of == (0, 0, 1, 2, 2, 3, 3)


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
    assert byte_word_ids(spellings) == expected
    words = b"".join(spellings).decode("utf-8", "replace").split()
    assert {*expected} - {None} == {*range(len(words))}


def test_a_spelling_of_two_words_has_the_first():
    assert byte_word_ids([b"a b", b"c"]) == [0, 1]


def test_words_numbers_and_characters():
    assert compared_words("L'Eau, 12 x!") == ["l", "eau", "12", "x"]
    assert compared_words("日本 Tokyo。") == ["日", "本", "tokyo"]


@pytest.mark.parametrize(
    ("cut", "text"),
    [
        ("Das stimmt nicht !", "Das stimmt nicht!"),
        ("Wir glauben , daß", "Wir glauben, daß"),
        ("it 's ( here ) .", "it's (here)."),
        ("3 % - oder 4 / 5", "3% - oder 4 / 5"),
        ("( so )", "(so)"),
        (". a", ". a"),
        ("d.h. er", "d.h. er"),
        ("Debian の 起動 （ 図 1 ） 。", "Debian の起動（図 1）。"),
        ("", ""),
    ],
)
def test_sentences_as_people_write_them(cut, text):
    words = cut.split()
    glued = detokenize(words)
    assert glued.text == text
    assert len(glued.word_at) == len(text)
    spelled = [
        "".join(c for c, at in zip(text, glued.word_at, strict=True) if at == number)
        for number in range(len(words))
    ]
    assert spelled == words
    assert [at for c, at in zip(text, glued.word_at, strict=True) if c == " "] == [None] * (
        text.count(" ")
    )
