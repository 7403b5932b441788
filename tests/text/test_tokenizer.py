import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from regard.errors import TextError
from regard.text.build import TokenizerSettings
from regard.text.tokenizer import normalize
from regard.text.vocab_tokenizers import CharacterTokenizer, WordTokenizer


def characters(*pieces):
    return CharacterTokenizer(pieces, TokenizerSettings(kind="characters"))


@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("é", "é"),
        (" ", "▁"),
        ("\n", "<0x0A>"),
        ("\x1b", "<0x1B>"),
        ("\u00a0", "<0xC2><0xA0>"),
        ("\u200d", "\u200d"),
        ("👍", "👍"),
    ],
)
def test_pieces_are_shown_so_that_they_can_be_seen(piece, shown):
    assert characters(piece).pieces([4]) == [shown]


def test_size_counts_the_special_pieces():
    assert characters("a", "b", "c").size == 7


def test_fingerprint_depends_on_where_one_piece_ends():
    assert characters("ab", "c").fingerprint() != characters("a", "bc").fingerprint()


def test_fingerprint_depends_on_the_kind():
    words = WordTokenizer((" ", "a"), TokenizerSettings(kind="words"))
    assert words.fingerprint() != characters(" ", "a").fingerprint()


@pytest.mark.parametrize(
    ("form", "lowercase", "expected"),
    [
        ("none", False, "E\u0301 ﬁ Ⅷ"),
        ("nfc", False, "É ﬁ Ⅷ"),
        ("nfkc", False, "É fi VIII"),
        ("none", True, "e\u0301 ﬁ ⅷ"),
        ("nfc", True, "é ﬁ ⅷ"),
        ("nfkc", True, "é fi viii"),
    ],
)
def test_forms(form, lowercase, expected):
    assert normalize("E\u0301 ﬁ Ⅷ", form, lowercase=lowercase) == expected


def test_capitals_that_the_form_brings_become_small():
    assert normalize("ℌ", "nfkc", lowercase=True) == "h"


@hypothesis_settings(max_examples=300, deadline=None)
@given(text=st.text(), form=st.sampled_from(["none", "nfc", "nfkc"]), lowercase=st.booleans())
def test_twice_is_once(text, form, lowercase):
    once = normalize(text, form, lowercase=lowercase)
    assert normalize(once, form, lowercase=lowercase) == once


@pytest.mark.parametrize("half", [0xD800, 0xDC80, 0xDFFF])
def test_half_a_surrogate_pair_is_refused_with_its_place(half):
    with pytest.raises(TextError, match="as character 3 of 4, which UTF-8 cannot spell; read"):
        normalize(f"ab{chr(half)}c", "nfc", lowercase=False)
