"""Addresses and placeholders in sentences: the same on every way, and nothing else changes."""

import sys

import pytest

from regard.engines.engine import TranslationRequest
from regard.pipelines.markup.markup_translator import translate_markup
from regard.pipelines.markup.protected_text import translate_protected
from regard.text.segmentation import KINDS, InputSettings

LINES = ["Jane visite https://example.com demain.", "Bonjour {name}.", "Écris à a@b.org !"]


@pytest.fixture
def reading(translator, monkeypatch):
    """The translator, as if its run had learned of sentences."""
    monkeypatch.setattr(translator, "input", InputSettings())
    return translator


def test_lines_and_markup_give_the_same(reading):
    answers = reading.translate(LINES)
    assert [answer.text for answer in answers] == translate_markup(reading, LINES)
    assert [answer.source for answer in answers] == LINES
    for answer, code in zip(answers, ("https://example.com", "{name}", "a@b.org"), strict=True):
        assert answer.text.count(code) == 1
        assert answer.score < 0


def test_what_is_around_stays_and_tags_are_text(reading):
    text = "- Il part.\t<b>Voir</b> &amp; www.a.org ici. 2026"
    [answer] = reading.translate([text])
    assert answer.text.startswith("- ")
    assert answer.text.endswith(" 2026")
    assert answer.text.count("www.a.org") == answer.text.count("\t") == 1
    [alone] = reading.translate(["Il part."])
    assert answer.text.startswith(f"- {alone.text}\t")


def test_others_of_the_batch_are_answered_as_without_it(reading):
    plain_answers = ["Il part.", "https://example.com", "Elle ne la visite pas."]
    mixed = reading.translate([plain_answers[0], LINES[0], *plain_answers[1:]], n_best=2)
    alone = reading.translate(plain_answers, n_best=2)
    assert [mixed[place].candidates for place in (0, 2, 3)] == [one.candidates for one in alone]
    assert len(mixed[1].candidates) == 1


@pytest.mark.parametrize("lines", [["Il part.", "https://example.com", "100 %", "$5"], LINES])
def test_markup_is_imported_only_for_what_needs_it(reading, monkeypatch, lines):
    monkeypatch.setitem(sys.modules, "regard.pipelines.markup.protected_text", None)
    if lines is not LINES:
        reading.translate(lines)
        return
    with pytest.raises(ModuleNotFoundError):
        reading.translate(lines)
    reading.translate(lines, split=False)
    reading.translate(lines, prefix="the")
    codes = tuple(kind for kind in KINDS if kind != "codes")
    monkeypatch.setattr(reading, "input", InputSettings(pass_through=codes))
    reading.translate(lines)


def test_an_export_alone_holds_them_too(reading, monkeypatch):
    expected = translate_protected(reading, LINES, TranslationRequest(reading.settings))
    monkeypatch.setattr(type(reading), "has_runs", False)
    found = translate_protected(reading, LINES, TranslationRequest(reading.settings))
    assert [sorted(one.text.split()) for one in found] == [
        sorted(one.text.split()) for one in expected
    ]
