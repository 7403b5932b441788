"""One text is not a list of its letters, whoever is given it."""

import pytest

from regard.errors import require_texts
from regard.evaluation.scores import LengthSettings, ScoreSettings, compare, score, score_by_length

ONE = r"must be a list of texts \(str\), got str; for one text give \[text\]"


def test_texts_are_several():
    require_texts("texts", ["a", "b"])
    require_texts("texts", ("a",))
    with pytest.raises(TypeError, match=rf"texts {ONE}"):
        require_texts("texts", "ab")
    with pytest.raises(TypeError, match=r"names must be a list of texts .* got NoneType, bytes"):
        require_texts("names", ["a", b"b", None])


@pytest.mark.parametrize(
    "measure",
    [
        lambda text: score(text, text),
        lambda text: compare(text, text, text, ScoreSettings()),
        lambda text: score_by_length(text, text, text, LengthSettings(), ScoreSettings()),
    ],
    ids=["score", "compare", "by length"],
)
def test_what_is_measured_is_several_texts(measure):
    with pytest.raises(TypeError, match=ONE):
        measure("Il part.")
