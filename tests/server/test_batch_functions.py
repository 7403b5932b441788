import shutil

import pytest

from regard.alignment.extraction import AlignmentSettings
from regard.alignment.run_alignment import (
    ALIGNMENT_FILE,
    MeasuredAlignment,
    align_pairs,
    best_alignment,
)
from regard.corpora.corpus import Pair
from regard.errors import SearchError
from regard.recipes.verification import accept
from regard.server.batch_functions import (
    AlignPairs,
    RecordAttention,
    TranslateLines,
    TranslateMarkup,
)
from regard.tasks.translation.pipeline import load
from regard.text.segmentation import InputSettings

SENTENCES = ["Jane visite l'Afrique en septembre.", "Il part.", "Elle ne la visite pas."]


class FakeSlot:
    """An item whose client may have disconnected; records partial translations."""

    def __init__(self, waiting=True):
        self.partials, self.is_waiting = [], lambda: waiting

    def send_partial(self, text):
        self.partials.append(text)
        return self.is_waiting()


def fake_slots(count=3, *disconnected):
    """The slots of a batch, some of whose clients have disconnected."""
    return [FakeSlot(number not in disconnected) for number in range(count)]


def translate(translator, lines, slots, **options):
    """The answers to some lines, in one batch."""
    prepared = translator.tokenize(lines, split=False)
    return TranslateLines(translator, translator.settings, **options)(prepared, slots)


def test_lines_in_a_batch_are_translated_as_alone(translator):
    slots = fake_slots()
    answers = translate(translator, SENTENCES, slots)
    assert [one.text for one in answers] == [translator(one).text for one in SENTENCES]
    assert not any(slot.partials for slot in slots)


def test_streamed_lines_send_partial_translations(translator):
    slots = fake_slots()
    answers = translate(translator, SENTENCES, slots, streamed=True)
    for slot, answer in zip(slots, answers, strict=True):
        assert len(slot.partials) > 1
        assert slot.partials[-1] == answer.text


@pytest.mark.parametrize("streamed", [False, True])
def test_the_search_of_a_disconnected_client_is_cancelled(tiny_run, streamed):
    translator = load(tiny_run, device="cpu", engine="native")
    first, *others = translate(translator, SENTENCES, fake_slots(3, 0), streamed=streamed)
    assert [one.text for one in others] == [translator(one).text for one in SENTENCES[1:]]
    assert len(first.text) < len(translator(SENTENCES[0]).text)


def test_searches_on_a_gpu_are_not_observed(translator, monkeypatch):
    def never(self, observe):
        raise AssertionError("it would wait for its host at each step")

    monkeypatch.setattr(type(translator), "on_gpu", True)
    monkeypatch.setattr(type(translator), "observed", never)
    first, *others = translate(translator, SENTENCES, fake_slots(3, 0))
    assert first is None  # its client had disconnected before
    assert [one.text for one in others] == [translator(one).text for one in SENTENCES[1:]]
    assert TranslateMarkup(translator, translator.settings)(["Il part."], fake_slots(1))


def test_functions_are_equal_if_their_translators_and_options_are(translator, tiny_run):
    settings = translator.settings
    wider = settings.model_copy(update={"n_best": 2})
    same = TranslateLines(translator, settings.model_copy())
    assert TranslateLines(translator, settings) == same
    assert hash(TranslateLines(translator, settings)) == hash(same)
    functions = {
        TranslateLines(translator, settings),
        TranslateLines(load(tiny_run, device="cpu"), settings),
        TranslateLines(translator, wider),
        TranslateLines(translator, settings, streamed=True),
        TranslateMarkup(translator, settings),
        RecordAttention(translator, settings),
        RecordAttention(translator, settings, tree=True),
        AlignPairs(translator),
    }
    assert len(functions) == 8


def test_markup_is_kept(translator):
    lines = ["<b>Il</b> part.", "<br>"]
    text, bare = TranslateMarkup(translator, translator.settings)(lines, fake_slots(2))
    assert text.count("<b>") == text.count("</b>") == 1
    assert bare == "<br>"


def test_lines_with_markup_can_be_translated_whole(translator):
    two = f"{SENTENCES[0]} {SENTENCES[1]}"
    apart, whole = (
        TranslateMarkup(translator, translator.settings, split)([two], fake_slots(1))[0]
        for split in (True, False)
    )
    assert whole == translator(two, split=False).text
    assert apart == f"{translator(SENTENCES[0]).text} {translator(SENTENCES[1]).text}"


def test_documents_for_the_viewer(translator):
    function = RecordAttention(translator, translator.settings, tree=True)
    [document] = function(SENTENCES[:1], fake_slots(1))
    assert document["model"] == translator.runs[0].folder.path.name
    assert document["target"]["text"] == translator(SENTENCES[0]).text
    assert document["tree"]["nodes"]


def test_recording_of_one_client_goes_on_when_another_disconnects(translator):
    function = RecordAttention(translator, translator.settings)
    cancelled, document = function(SENTENCES[:2], fake_slots(2, 0))
    assert document["target"]["text"] == translator(SENTENCES[1]).text
    assert len(cancelled["target"]["text"]) < len(translator(SENTENCES[0]).text)


def test_the_links_of_a_document_are_by_the_alignment_measured_for_the_run(tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    translator = load(folder, device="cpu")
    run, settings = translator.runs[0], AlignmentSettings(layer=1, head=2)
    measured = MeasuredAlignment(settings=settings, by="gold", value=0.1, pairs=1)
    (folder / ALIGNMENT_FILE).write_text(measured.model_dump_json())
    accept(folder)
    function = RecordAttention(translator, translator.settings)
    [document] = function(SENTENCES[:1], fake_slots(1))
    assert document["alignment"]["by"] == str(best_alignment(run)) == str(settings)


def test_alignments_are_those_measured_for_the_run(translator):
    pairs, run = [Pair("Il part.", "He leaves."), Pair("Il part .", "He")], translator.runs[0]
    found = AlignPairs(translator)(pairs, fake_slots(2))
    assert found == list(align_pairs(run, pairs, best_alignment(run)))


def test_a_sentence_that_is_too_long_to_align_is_an_error(translator):
    with pytest.raises(SearchError, match="send its sentences one by one"):
        AlignPairs(translator)([Pair("Il part.", "He " * 99)], fake_slots(1))


@pytest.mark.parametrize("streamed", [False, True])
def test_urls_in_sentences_are_kept_as_by_the_translator(translator, monkeypatch, streamed):
    monkeypatch.setattr(translator, "input", InputSettings())
    lines, slots = [SENTENCES[1], "Jane visite https://example.com demain."], fake_slots(2)
    answers = translate(translator, lines, slots, streamed=streamed)
    assert [one.text for one in answers] == [one.text for one in translator.translate(lines)]
    assert [any(slot.partials) for slot in slots] == [streamed, False]
    whole = translate(translator, lines, fake_slots(2), whole=True)
    assert whole[1].text == translator(lines[1], split=False).text
