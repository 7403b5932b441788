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
from regard.pipelines.translator import load
from regard.recipes.verification import accept
from regard.server.batch_functions import (
    AlignPairs,
    RecordAttention,
    TranslateLines,
    TranslateMarkup,
)
from regard.text.segmentation import InputSettings

SENTENCES = ["Jane visite l'Afrique en septembre.", "Il part.", "Elle ne la visite pas."]


class RecordedWaiters:
    """Waits for some items, and remembers what it is told."""

    def __init__(self, *disconnected):
        self.partials, self.disconnected, self.asked = [], disconnected, 0

    def is_waiting(self, number):
        self.asked += 1
        return number not in self.disconnected

    def send_partial(self, number, text):
        self.partials.append((number, text))
        return self.is_waiting(number)


def test_lines_are_translated_as_alone(translator):
    waiters = RecordedWaiters()
    answers = TranslateLines(translator.settings)(translator, SENTENCES, waiters)
    assert [one.text for one in answers] == [translator(one).text for one in SENTENCES]
    assert not waiters.partials
    assert waiters.asked


def test_streamed_lines_are_told_of_as_they_grow(translator):
    waiters = RecordedWaiters()
    answers = TranslateLines(translator.settings, streamed=True)(translator, SENTENCES, waiters)
    for number, answer in enumerate(answers):
        texts = [text for place, text in waiters.partials if place == number]
        assert len(texts) > 1
        assert texts[-1] == answer.text


@pytest.mark.parametrize("streamed", [False, True])
def test_who_leaves_leaves_the_batch(translator, streamed):
    waiters = RecordedWaiters(0)
    task = TranslateLines(translator.settings, streamed=streamed)
    first, *others = task(translator, SENTENCES, waiters)
    assert [one.text for one in others] == [translator(one).text for one in SENTENCES[1:]]
    assert len(first.text) < len(translator(SENTENCES[0]).text)


def test_no_search_on_a_gpu_is_looked_at(translator, monkeypatch):
    def never(self, observe):
        raise AssertionError("it would wait for its host at each step")

    monkeypatch.setattr(translator._native_engine, "on_cpu", False)
    monkeypatch.setattr(type(translator), "observed", never)
    waiters = RecordedWaiters(0)
    first, *others = TranslateLines(translator.settings)(translator, SENTENCES, waiters)
    assert not first.text  # who has left before is left out
    assert [one.text for one in others] == [translator(one).text for one in SENTENCES[1:]]
    assert TranslateMarkup(translator.settings)(translator, ["Il part."], waiters)


def test_like_tasks_are_equal_and_unlike_ones_are_not(translator):
    settings = translator.settings
    wider = settings.model_copy(update={"n_best": 2})
    assert TranslateLines(settings) == TranslateLines(settings.model_copy())
    assert hash(TranslateLines(settings)) == hash(TranslateLines(settings.model_copy()))
    tasks = {
        TranslateLines(settings),
        TranslateLines(wider),
        TranslateLines(settings, streamed=True),
    }
    tasks |= {
        TranslateMarkup(settings),
        RecordAttention(settings),
        RecordAttention(settings, tree=True),
        AlignPairs(),
    }
    assert len(tasks) == 7


def test_markup_is_carried(translator):
    [text, bare] = TranslateMarkup(translator.settings)(
        translator, ["<b>Il</b> part.", "<br>"], RecordedWaiters()
    )
    assert text.count("<b>") == text.count("</b>") == 1
    assert bare == "<br>"


def test_lines_with_markup_are_read_whole_where_asked(translator):
    two = f"{SENTENCES[0]} {SENTENCES[1]}"
    apart, whole = (
        TranslateMarkup(translator.settings, split=split)(translator, [two], RecordedWaiters())[0]
        for split in (True, False)
    )
    assert whole == translator(two, split=False).text
    assert apart == f"{translator(SENTENCES[0]).text} {translator(SENTENCES[1]).text}"


def test_documents_of_a_look(translator):
    [document] = RecordAttention(translator.settings, tree=True)(
        translator, SENTENCES[:1], RecordedWaiters()
    )
    assert document["model"] == translator.runs[0].folder.path.name
    assert document["target"]["text"] == translator(SENTENCES[0]).text
    assert document["tree"]["nodes"]


def test_the_links_of_a_look_are_those_measured_for_the_run(tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    translator = load(folder, device="cpu")
    run, settings = translator.runs[0], AlignmentSettings(layer=1, head=2)
    measured = MeasuredAlignment(settings=settings, by="gold", value=0.1, pairs=1)
    (folder / ALIGNMENT_FILE).write_text(measured.model_dump_json())
    accept(folder)
    [document] = RecordAttention(translator.settings)(translator, SENTENCES[:1], RecordedWaiters())
    assert document["alignment"]["by"] == str(best_alignment(run)) == str(settings)


def test_alignments_are_those_measured_for_the_run(translator):
    pairs, run = [Pair("Il part.", "He leaves."), Pair("Il part .", "He")], translator.runs[0]
    found = AlignPairs()(translator, pairs, RecordedWaiters())
    assert found == list(align_pairs(run, pairs, best_alignment(run)))


def test_a_sentence_that_is_too_long_to_align(translator):
    with pytest.raises(SearchError, match="send its sentences one by one"):
        AlignPairs()(translator, [Pair("Il part.", "He " * 99)], RecordedWaiters())


@pytest.mark.parametrize("streamed", [False, True])
def test_addresses_in_sentences_are_held_as_on_every_way(translator, monkeypatch, streamed):
    monkeypatch.setattr(translator, "input", InputSettings())
    lines, waiters = [SENTENCES[1], "Jane visite https://example.com demain."], RecordedWaiters()
    answers = TranslateLines(translator.settings, streamed=streamed)(translator, lines, waiters)
    assert [one.text for one in answers] == [one.text for one in translator.translate(lines)]
    assert {number for number, text in waiters.partials if text} == ({0} if streamed else set())
    whole = TranslateLines(translator.settings, whole=True)(translator, lines, RecordedWaiters())
    assert whole[1].text == translator(lines[1], split=False).text
