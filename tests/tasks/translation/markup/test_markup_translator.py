"""Markup through a whole translation: nothing is lost, whatever the model says."""

import random
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.engines.translation_request import TranslationRequest
from regard.tasks.translation.markup import markup_translator
from regard.tasks.translation.markup.markup_translator import (
    MarkupTranslator,
    translate_markup,
    translate_protected,
)
from regard.tasks.translation.markup.markup_tree import Element, has_same_markup, parse_markup
from regard.text.segmentation import KINDS, InputSettings

TAGS = ["<b>", "</b>", "<i class='x y'>", "</i>", "<br/>", "<br>", '<a href="?b=<2>">', "</a>"]
BROKEN = ["<code></i></code>", "<script>"]
KEPT = ["<!-- a <b> -->", "<code>x <i></code>", "<span translate='no'>no</span>", "{\\an8}", "{}"]
HELD = [
    "{name}",
    "{{x}}",
    "%s",
    "%(name)d",
    "%1$s",
    "$VAR",
    "${x}",
    "https://a.b/c?d=e",
    "me@a.org",
]
WORDS = ["Paul", "aime", "la mer", "l'Afrique", "H2O", "Anna", "é", "e\u0301", "日本語です。", "1"]
MARKS = [" ", "\n", ".", ",", "!", "« oui »", "(", ")", "-", ". Elle", "\u200f", "\x00"]
TRAPS = ["<", ">", "&", "&amp;", "&lt;b&gt;", "&nbsp;", "{", "}", "%", "$", "Paris"]
PIECES = st.sampled_from([*TAGS, *BROKEN, *KEPT, *HELD, *WORDS, *MARKS, *TRAPS, " ", " ", " "])
TEXTS = st.lists(PIECES, max_size=14).map("".join)


def model_answers(answer):
    """Stands for a model that answers each text as `answer` does."""

    def translate(texts, settings=None, **options):
        return [SimpleNamespace(text=answer(text), notes=()) for text in texts]

    return translate


def shuffled(text):
    words = text.split()
    random.Random(text).shuffle(words)
    return " ".join(words)


MODELS = {
    "echoes": lambda text: text,
    "reverses": lambda text: " ".join(reversed(text.split())),
    "shuffles": shuffled,
    "says nothing": lambda text: "",
    "says one word": lambda text: "word",
    "babbles": lambda text: f"<b>{text}</b> {{name}} %s < b> $VAR {text} {{ }} & &lt; <i",
    "shouts marks": lambda text: "".join(letter for letter in text if not letter.isalnum()),
    "repeats": lambda text: f"{text} {text}",
    "joins": lambda text: text.replace(" ", ""),
}


@pytest.fixture(scope="module", params=sorted(MODELS))
def model(request, translator):
    return SimpleNamespace(
        runs=translator.runs,
        settings=translator.settings,
        sources=translator.sources,
        target=translator.target,
        limit=translator.limit,
        segment=translator.segment,
        translate=model_answers(MODELS[request.param]),
    )


def nesting(pieces, parent=""):
    for piece in pieces:
        if isinstance(piece, Element):
            yield parent, piece.opening
            yield from nesting(piece.inside, piece.opening)


def check(text, answer):
    """Every tag and placeholder is there once, and tags are as deep in each other as they were."""
    before, after = parse_markup(text), parse_markup(answer)
    assert has_same_markup(before, parse_markup(answer)), answer
    assert Counter(nesting(before)) == Counter(nesting(after)), answer


@settings(max_examples=25, deadline=None)
@given(text=TEXTS)
def test_no_markup_is_lost_doubled_or_made_up(model, text):
    check(text, translate_markup(model, [text])[0])


@settings(max_examples=20, deadline=None)
@given(texts=st.lists(TEXTS, max_size=3))
def test_an_untrained_model_loses_no_markup(translator, texts):
    answers = translate_markup(translator, texts)
    assert len(answers) == len(texts)
    for text, answer in zip(texts, answers, strict=True):
        check(text, answer)


def carried(translator, text, answer, **options):
    """What `text` becomes with a model that answers its plain text with `answer`."""
    fake = SimpleNamespace(
        settings=translator.settings,
        runs=translator.runs,
        sources=translator.sources,
        target=translator.target,
        limit=translator.limit,
        segment=translator.segment,
        translate=model_answers(answer),
    )
    return MarkupTranslator(fake, **options).translate_texts([text])[0].text


@pytest.fixture
def in_order(monkeypatch):
    """Words are linked by their places, not by what a model attends to."""
    monkeypatch.setattr(markup_translator, "has_cross_attention", lambda run: False)


def upper(text):
    return text.upper()


def test_space_around_a_text_stays(translator):
    assert carried(translator, " \t&nbsp;a b\n ", upper) == " \t&nbsp;A B\n "
    assert carried(translator, "  ", upper) == "  "
    assert carried(translator, "a  b\n c", upper) == "A  B C"
    assert carried(translator, "a  {x}\n c", str) == "a {x} c"


@pytest.mark.parametrize("text", ["", "<br/>", "{x}", "<b> {x} </b>!", "&nbsp;&mdash;", "…"])
def test_texts_without_words_are_copied(translator, text):
    def never(text):
        raise AssertionError(text)

    assert carried(translator, text, never) == text


def test_characters_are_named_where_they_were_named(translator):
    assert carried(translator, "a &lt; b &amp; c", upper) == "A &lt; B &amp; C"
    assert carried(translator, "a < b & c", upper) == "A < B & C"


def test_texts_are_read_in_normal_form_c(translator):
    seen = []

    def note(text):
        seen.append(text)
        return text

    carried(translator, "<i>e\u0301te\u0301</i>", note)
    assert seen == ["été"]


def test_names_replace_protected_text(translator):
    seen = []

    def note(text):
        seen.append(text)
        return f"Hello {text}!"

    assert carried(translator, "{a} aime {b} et {a}", note) == "Hello {a} aime {b} et {a}!"
    assert seen == ["Anna aime Paul et Anna"]


def test_a_name_in_the_text_is_no_stand_in(translator):
    assert carried(translator, "Anna aime {a}", upper, names=[["Anna", "PAUL"]]) == "ANNA AIME {a}"


def test_the_next_name_is_tried_and_then_none(translator):
    seen = []

    def forget(text):
        seen.append(text)
        return text.replace("Anna", "")

    names = [["Anna"], ["Paris"]]
    assert carried(translator, "on aime {a}", forget, names=names) == "on aime {a}"
    assert seen == ["on aime Anna", "on aime Paris"]
    assert carried(translator, "on aime {a}", lambda text: "nous", names=names) == "nous {a}"


def test_sentences_are_translated_one_by_one(translator, in_order):
    seen = []

    def note(text):
        seen.append(text)
        return text

    text = "Il dort. <b>Elle part. Nous</b> dansons."
    assert carried(translator, text, note) == text
    assert seen == ["Il dort.", "Elle part.", "Nous dansons."]
    assert carried(translator, text, note, split=False) == text
    assert seen[3:] == ["Il dort. Elle part. Nous dansons."]


def test_no_braces_become_a_placeholder(translator, in_order):
    assert carried(translator, "mot", lambda _: "a}}{{b {c} d}} {{e") == "a}}b c d {{e"
    text = "${https://a.b/c{{x}}. Elle"
    assert has_same_markup(parse_markup(text), parse_markup(carried(translator, text, upper)))


def test_copied_text_forms_no_tag_with_translations(translator, in_order):
    assert carried(translator, "<! {a} dort", lambda text: f"a>b {text}") == "< ! a>b {a} dort"


def test_the_same_sentence_is_translated_once(translator):
    seen = []

    def translate(texts, settings=None, **options):
        seen.extend(texts)
        return model_answers(upper)(texts)

    fake = SimpleNamespace(
        settings=translator.settings,
        runs=translator.runs,
        sources=translator.sources,
        target=translator.target,
        limit=translator.limit,
        segment=translator.segment,
        translate=translate,
    )
    assert translate_markup(fake, ["ah", "<b>ah</b>", "ah"]) == ["AH", "<b>AH</b>", "AH"]
    assert seen == ["ah"]


def test_texts_beyond_the_length_limit_are_split(translator, in_order):
    text = "la mer " * 60
    seen = []

    def note(text):
        seen.append(text)
        return text

    answer = carried(translator, f"<b>{text}</b>aime", note)
    assert len(seen) > 1
    assert answer == f"<b>{text.strip()}</b> aime"


def test_notes_are_not_repeated(translator):
    [one] = MarkupTranslator(translator).translate_texts(["<b>\u0416</b> \u0416. \u0416 \u0416."])
    assert any("not in the model's vocabulary" in note for note in one.notes)
    assert len(set(one.notes)) == len(one.notes)


def test_a_model_without_attention_keeps_the_order(translator, in_order):
    assert carried(translator, "un <b>deux</b> trois", upper) == "UN <b>DEUX</b> TROIS"
    assert carried(translator, "un <b>deux</b>", lambda _: "a b c d") == "a b <b>c d</b>"


def test_surrogates_do_no_harm(translator, in_order):
    assert carried(translator, "a\ud800 <b>b</b>", upper) == "A\ufffd <b>B</b>"


SENTENCES_WITH_CODES = [
    "Jane visite https://example.com demain.",
    "Bonjour {name}.",
    "Écris à a@b.org !",
]


@pytest.fixture
def reading(translator, monkeypatch):
    """The translator, as if its run had learned of sentences."""
    monkeypatch.setattr(translator, "input", InputSettings())
    return translator


def test_lines_and_markup_give_the_same(reading):
    answers = reading.translate(SENTENCES_WITH_CODES)
    assert [answer.text for answer in answers] == translate_markup(reading, SENTENCES_WITH_CODES)
    assert [answer.source for answer in answers] == SENTENCES_WITH_CODES
    for answer, code in zip(answers, ("https://example.com", "{name}", "a@b.org"), strict=True):
        assert answer.text.count(code) == 1
        assert answer.score < 0


def test_tags_are_text_beside_protected_codes(reading):
    text = "- Il part.\t<b>Voir</b> &amp; www.a.org ici. 2026"
    [answer] = reading.translate([text])
    assert answer.text.startswith("- ")
    assert answer.text.endswith(" 2026")
    assert answer.text.count("www.a.org") == answer.text.count("\t") == 1
    [alone] = reading.translate(["Il part."])
    assert answer.text.startswith(f"- {alone.text}\t")


def test_sentences_beside_protected_ones_are_translated_alike(reading):
    plain_answers = ["Il part.", "https://example.com", "Elle ne la visite pas."]
    mixed = reading.translate(
        [plain_answers[0], SENTENCES_WITH_CODES[0], *plain_answers[1:]], n_best=2
    )
    alone = reading.translate(plain_answers, n_best=2)
    assert [mixed[place].candidates for place in (0, 2, 3)] == [one.candidates for one in alone]
    assert len(mixed[1].candidates) == 1


@pytest.mark.parametrize(
    "lines", [["Il part.", "https://example.com", "100 %", "$5"], SENTENCES_WITH_CODES]
)
def test_markup_is_imported_only_for_protected_text(reading, monkeypatch, lines):
    monkeypatch.setitem(sys.modules, "regard.tasks.translation.markup.markup_translator", None)
    if lines is not SENTENCES_WITH_CODES:
        reading.translate(lines)
        return
    with pytest.raises(ModuleNotFoundError):
        reading.translate(lines)
    reading.translate(lines, split=False)
    reading.translate(lines, prefix="the")
    codes = tuple(kind for kind in KINDS if kind != "codes")
    monkeypatch.setattr(reading, "input", InputSettings(pass_through=codes))
    reading.translate(lines)


def test_an_export_alone_protects_codes(reading, monkeypatch):
    expected = translate_protected(
        reading, SENTENCES_WITH_CODES, TranslationRequest(reading.settings)
    )
    monkeypatch.setattr(type(reading), "has_runs", False)
    found = translate_protected(reading, SENTENCES_WITH_CODES, TranslationRequest(reading.settings))
    assert [sorted(one.text.split()) for one in found] == [
        sorted(one.text.split()) for one in expected
    ]
