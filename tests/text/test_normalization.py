import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from regard.errors import TextError
from regard.text.normalization import normalize


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
