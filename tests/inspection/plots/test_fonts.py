import numpy as np
import pytest
from matplotlib.figure import Figure

from drawing import no_fonts, pixels_in
from regard.errors import MissingFontWarning
from regard.inspection.plots.fonts import (
    DEFAULT_FONT,
    fonts_for,
    grapheme_clusters,
    is_right_to_left,
    style_text,
    text_width,
    truncate_label,
)

__all__ = ["no_fonts"]


def drawn(text, tmp_path):
    """The ink of one text, cut out."""
    figure = Figure((6, 1))
    style_text(figure.text(0.1, 0.5, text), 24, "black")
    foreground = pixels_in(figure, tmp_path).sum(-1) < 380
    rows, columns = np.flatnonzero(foreground.any(1)), np.flatnonzero(foreground.any(0))
    return foreground[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


@pytest.mark.parametrize(
    ("text", "letters"),
    [
        ("abc", ["a", "b", "c"]),
        ("e\u0301a\u0308", ["e\u0301", "a\u0308"]),
        ("क्षत्रिय", ["क्ष", "त्रि", "य"]),
        ("👩\u200d👩\u200d👧👍🏽", ["👩\u200d👩\u200d👧", "👍🏽"]),
        ("🇫🇷🇩🇪a", ["🇫🇷", "🇩🇪", "a"]),
        ("❤\ufe0fb", ["❤\ufe0f", "b"]),
        ("\u1112\u1161\u11ab글", ["\u1112\u1161\u11ab", "글"]),  # Korean letter by letter
        ("น้ำใจຄຳ", ["น้ำ", "ใ", "จ", "ຄຳ"]),
        ("நிக்ஷ", ["நி", "க்", "ஷ"]),  # no conjuncts in Tamil
        ("ক্\u200dষক্\u200cষ", ["ক্\u200dষ", "ক্\u200c", "ষ"]),
        ("a\r\nb", ["a", "\r\n", "b"]),
        ("🏴\U000e0067\U000e0062\U000e007fx", ["🏴\U000e0067\U000e0062\U000e007f", "x"]),
        ("", []),
    ],
)
def test_grapheme_clusters_are_user_perceived_characters(text, letters):
    assert grapheme_clusters(text) == letters


def test_long_labels_are_cut_between_letters():
    assert truncate_label("anticonstitutionnellement", 10) == "anticonst…"
    assert truncate_label("dix lettre", 10) == "dix lettre"
    assert truncate_label("e\u0301" * 5, 4) == "e\u0301" * 3 + "…"
    assert truncate_label("東京都庁舎", 7) == "東京都…"  # wide letters count twice
    assert truncate_label("क्षत्रिय", 3) == "क्ष…"
    assert truncate_label("a\n\tb") == "a␊␉b"  # what has no picture is given one


def test_lines_run_as_most_of_their_letters_do():
    assert is_right_to_left(["مرحبا", "بك", "abc"])
    assert is_right_to_left(["היא", ".", "12"])
    assert not is_right_to_left(["Jane", "visits", "مرحبا"])
    assert not is_right_to_left(["東京", "!"])
    assert not is_right_to_left(["12", "."])


def test_only_fonts_that_are_needed_are_named():
    assert fonts_for("Jane visite l'Afrique ▁… é") == (DEFAULT_FONT,)
    for text in ("東京", "สวัสดี", "नमस्ते"):
        others = fonts_for(f"{text} and {text}")
        assert others[0] == DEFAULT_FONT
        assert len(others) <= 2  # where no font has the letters there is none to name


def test_fonts_that_cannot_be_drawn_are_passed_over(monkeypatch):
    class Pictures:
        scalable = False

        def __init__(self, path):
            pass

        def get_char_index(self, number):
            return 1

    assert fonts_for("letters of its own") == (DEFAULT_FONT,)  # which are remembered
    monkeypatch.setattr("regard.inspection.plots.fonts.FT2Font", Pictures)
    assert fonts_for("\U0001f9ff, an amulet") == (DEFAULT_FONT,)


def test_width_grows_with_the_text_and_the_size():
    assert text_width("mm", 11) == pytest.approx(2 * text_width("m", 11), rel=0.1)
    assert text_width("words", 22) == pytest.approx(2 * text_width("words", 11), rel=0.1)
    assert text_width("$x^2$", 11) > text_width("$x", 11)  # no formula


def test_right_to_left_letters_are_joined_and_ordered(tmp_path):
    # lam-alef is one sign in this order, two signs in the other
    assert drawn("\u0644\u0627", tmp_path).shape[1] < drawn("\u0627\u0644", tmp_path).shape[1]
    # yod hangs high; shin has a foot: the last letter stands on the left
    for text, foot in (("\u05e9\u05d9", False), ("\u05d9\u05e9", True)):
        foreground = drawn(text, tmp_path)
        assert foreground[-len(foreground) // 4 :, :6].any() == foot


def test_combining_marks_are_drawn_on_their_letters(tmp_path):
    assert drawn("e\u0301", tmp_path).shape == drawn("é", tmp_path).shape


def test_characters_without_a_font_are_drawn_without_matplotlib_warnings(tmp_path):
    assert drawn("\U0010fffd", tmp_path).any()
    assert text_width("\U0010fffd", 11) > 0


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["東京", "です", "서울"], "Chinese, Japanese and Korean.*; install .* fonts-noto-cjk$"),
        (["नमस्ते"], "Devanagari.*; install .* fonts-noto-core$"),
        (["👍🏽", "🇫🇷"], "emoji.*; install .* fonts-symbola$"),
        (["\U0010fffd"], "U\\+10FFFD: boxes are drawn instead$"),
    ],
)
def test_a_script_that_no_font_has_is_warned_of_once(no_fonts, texts, told):
    def draw_all():
        for text in texts:
            style_text(Figure().text(0, 0, f"{text} and more"), 9, "black")

    with pytest.warns(MissingFontWarning, match=f"no font here has letters for {told}") as caught:
        draw_all()
    assert len(caught) == 1


def test_letters_that_are_there_are_not_warned_of(no_fonts, recwarn):
    style_text(Figure().text(0, 0, "Jane visite l'Afrique ▁… é"), 9, "black")
    assert not recwarn.list
