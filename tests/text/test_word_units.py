import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.word_units import count_units, has_unspaced, merge_units, split_units, unit_spans


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
