import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.text.segmentation import (
    InputSettings,
    Segment,
    Segments,
    pass_through_kinds,
    segment,
    split_lines,
    split_sentences,
)

USUAL = InputSettings()


def lines(text, **settings):
    return segment(text, InputSettings(**settings)).lines


@pytest.mark.parametrize(
    "text",
    ["2026", "...", "😀", "https://example.com", "a@b.org", "- ", "1. ", "\t  ", "   ", "12:30",
     "{name}", "| 1 | 2 |", "| a | b |", "(c)", "100 %",
     "www.a.org, https://b.c/d!", "—", "\ufeff", "* * 3)", "©"],
)  # fmt: skip
def test_what_is_no_sentence_is_not_translated(text):
    assert lines(text) == []


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Elle part. Il dort.", ["Elle part.", "Il dort."]),
        ("    Elle part.  Il dort. ", ["Elle part.", "Il dort."]),
        ("- Elle part.\n\n  2. Il dort.\r\n# Fin", ["Elle part.", "Il dort.", "Fin"]),
        ("| un | deux |", ["un", "deux"]),
        ("|un|2026|b c|", ["un", "b c"]),
        ("Nom\tPrix   2026", ["Nom", "Prix"]),
        ("Elle  part", ["Elle  part"]),  # two spaces may be a slip
        ("un || deux", ["un", "deux"]),
        ("Il dort. 2026. Elle part.", ["Il dort.", "Elle part."]),
        ("😀 Salut! 😀", ["Salut!"]),
        ("Voir https://example.com.", ["Voir https://example.com."]),
        ("5 km", ["5 km"]),
        ("走了。睡了。", ["走了。", "睡了。"]),
    ],
)
def test_sentences_are_found_between_what_stays(text, sentences):
    found = segment(text, USUAL)
    assert found.lines == sentences
    assert "".join(part.text for part in found.parts) == text


@given(st.text(alphabet="aB1 -.>*|\t\r\n\ufeff\u2028<😀。@", max_size=40))
def test_any_text_is_its_segments(text):
    whole = InputSettings(split_sentences=False, pass_through=())
    for settings in (USUAL, InputSettings(language="en"), InputSettings(language="hi"), whole):
        found = segment(text, settings)
        assert "".join(part.text for part in found.parts) == text
        assert all(line.strip() == line and line for line in found.lines)
    assert "".join(part.text for part in split_lines(text).parts) == text


def test_lines_may_go_in_whole():
    whole = {"split_sentences": False, "pass_through": ()}
    assert lines("4 mar. 2021", **whole) == ["4 mar. 2021"]
    assert lines(" - 21 \n...", **whole) == ["- 21", "..."]
    assert split_lines("a. B.\r\n\n c ").lines == ["a. B.", " c "]


def test_each_kind_passes_by_itself():
    text = "- un\n12\n...\nhttps://a.b"
    kept = {"layout": "un", "numbers": "12", "symbols": "...", "codes": "https://a.b"}
    for kind in kept:
        found = lines(text, pass_through=(kind,))
        assert found == [
            "un" if kind == "layout" else "- un",
            *(line for other, line in kept.items() if other not in ("layout", kind)),
        ]


def test_what_a_text_consists_of():
    assert pass_through_kinds("12:30 — …") == {"numbers"}
    assert pass_through_kinds("1 https://a.b") == {"numbers", "codes"}
    assert pass_through_kinds("{x}!") == {"codes"}
    assert pass_through_kinds("— …") == {"symbols"}
    assert pass_through_kinds("b)") == {"symbols"}
    assert pass_through_kinds("日") is None


def test_translations_take_the_place_of_their_sentences():
    parts = [
        Segment("<p>"),
        Segment("un", translatable=True),
        Segment("  "),
        Segment("deux", translatable=True),
    ]
    document = Segments(parts)
    assert document.lines == ["un", "deux"]
    assert document.join(["UN", "DEUX"]) == "<p>UN  DEUX"


def test_spaces_between_sentences_are_those_of_the_language():
    chinese, english = segment("走了。睡了。", USUAL), segment("Go. Sleep. Now.", USUAL)
    assert chinese.join(["Go.", "Sleep."]) == "Go. Sleep."
    assert chinese.join(["走了。", "睡了。"]) == "走了。睡了。"
    assert english.join(["走。", "睡。", "Now."]) == "走。睡。Now."


def test_long_runs_take_no_longer():
    began = time.perf_counter()
    for text in ("a" + " " * 50_000 + "b", "a" + "😀" * 50_000 + "b", "- " * 50_000, "|" * 50_000):
        segment(text, USUAL)
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    "sentences",
    [
        [],
        ["Il dort."],
        ["Il dort.", "Elle part!", "Où?", "Ici"],
        ["M. Dupont et Mme. Roy dorment.", "J. Doe part."],
        ["« Quoi ? » dit-il.", "« Rien. »", "Il part."],
        ['He said "yes."', "Then he left (at last).", "1984 was long."],
        ["Voir p. 12 et art. 345.", "Fin"],
        ["Le 3. mars vient.", "En 1999.", "Oui"],
        ["Attends... puis dors.", "Non"],
        ["Version 2.5 de a.b est là."],
    ],
)
def test_sentences(sentences):
    text = " ".join(sentences)
    assert [text[slice(*span)] for span in split_sentences(text)] == sentences


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["Dr. Roy met Gov. Lee at 5 p.m. on Monday.", "They spoke."]),
        ("de", ["Am 3. Mai kam Dr. Roy, z. B. mit Frau Lee.", "Sie sprachen."]),
        ("es", ["El Sr. Roy vive en EE. UU. desde 1999.", "Habla."]),
        ("fr", ["Elle part.\u00a0", "Il dort."]),  # a space that is none to sentencex
        ("en", ["A\ud800 bee.", "Two."]),  # half a character
    ],
)
def test_sentences_by_the_rules_of_a_language(language, sentences):
    text = "".join(sentences) if sentences[0][-1].isspace() else " ".join(sentences)
    found = [text[slice(*span)] for span in split_sentences(text, language)]
    assert found == [sentence.strip() for sentence in sentences]


def test_hostile_marks_take_a_language_no_longer():
    began = time.perf_counter()
    split_sentences("“ a. " * 200_000, "en")
    assert time.perf_counter() - began < 10


def test_scripts_without_spaces_need_none():
    text = "你好。我们走！真的？"
    assert [text[slice(*span)] for span in split_sentences(text)] == [
        "你好。",
        "我们走！",
        "真的？",
    ]


def test_space_around_is_in_no_sentence():
    assert split_sentences("  Un. Deux. ") == [(2, 5), (6, 11)]
    assert split_sentences("   ") == []


@pytest.mark.parametrize("marks", [".", "。", "!?", '."', ". »"])
def test_a_long_run_of_marks_is_one_end_and_is_found_at_once(marks):
    run = marks * 20_000
    assert split_sentences(run) == [(0, len(run))]
    assert len(split_sentences(f"Oui{run} Non.")) == 2
