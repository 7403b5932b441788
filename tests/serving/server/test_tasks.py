import shutil

import pytest

from regard.corpora.pairs import Pair
from regard.errors import SearchError
from regard.inspection.alignment import AlignmentSettings
from regard.recipes.verification import accept
from regard.serving.aligning import KEPT, Measured, align_pairs, best_alignment
from regard.serving.server.tasks import Align, Carry, LookInto, Translate
from regard.serving.translator import load
from regard.text.segments import InputSettings

SENTENCES = ["Jane visite l'Afrique en septembre.", "Il part.", "Elle ne la visite pas."]


class Audience:
    """Waits for some items, and remembers what it is told."""

    def __init__(self, *leaving):
        self.told, self.leaving, self.asked = [], leaving, 0

    def waits(self, number):
        self.asked += 1
        return number not in self.leaving

    def tell(self, number, text):
        self.told.append((number, text))
        return self.waits(number)


def test_lines_are_translated_as_alone(translator):
    crowd = Audience()
    answers = Translate(translator.settings)(translator, SENTENCES, crowd)
    assert [one.text for one in answers] == [translator(one).text for one in SENTENCES]
    assert not crowd.told
    assert crowd.asked


def test_streamed_lines_are_told_of_as_they_grow(translator):
    crowd = Audience()
    answers = Translate(translator.settings, streamed=True)(translator, SENTENCES, crowd)
    for number, answer in enumerate(answers):
        texts = [text for place, text in crowd.told if place == number]
        assert len(texts) > 1
        assert texts[-1] == answer.text


@pytest.mark.parametrize("streamed", [False, True])
def test_who_leaves_leaves_the_batch(translator, streamed):
    crowd = Audience(0)
    task = Translate(translator.settings, streamed=streamed)
    first, *others = task(translator, SENTENCES, crowd)
    assert [one.text for one in others] == [translator(one).text for one in SENTENCES[1:]]
    assert len(first.text) < len(translator(SENTENCES[0]).text)


def test_no_search_on_a_gpu_is_looked_at(translator, monkeypatch):
    def never(self, observe):
        raise AssertionError("it would wait for its host at each step")

    monkeypatch.setattr(translator._native, "on_cpu", False)
    monkeypatch.setattr(type(translator), "observed", never)
    crowd = Audience(0)
    first, *others = Translate(translator.settings)(translator, SENTENCES, crowd)
    assert not first.text  # who has left before is left out
    assert [one.text for one in others] == [translator(one).text for one in SENTENCES[1:]]
    assert Carry(translator.settings)(translator, ["Il part."], crowd)


def test_like_tasks_are_equal_and_unlike_ones_are_not(translator):
    settings = translator.settings
    wider = settings.model_copy(update={"n_best": 2})
    assert Translate(settings) == Translate(settings.model_copy())
    assert hash(Translate(settings)) == hash(Translate(settings.model_copy()))
    tasks = {Translate(settings), Translate(wider), Translate(settings, streamed=True)}
    tasks |= {Carry(settings), LookInto(settings), LookInto(settings, tree=True), Align()}
    assert len(tasks) == 7


def test_markup_is_carried(translator):
    [text, bare] = Carry(translator.settings)(translator, ["<b>Il</b> part.", "<br>"], Audience())
    assert text.count("<b>") == text.count("</b>") == 1
    assert bare == "<br>"


def test_lines_with_markup_are_read_whole_where_asked(translator):
    two = f"{SENTENCES[0]} {SENTENCES[1]}"
    apart, whole = (
        Carry(translator.settings, split=split)(translator, [two], Audience())[0]
        for split in (True, False)
    )
    assert whole == translator(two, split=False).text
    assert apart == f"{translator(SENTENCES[0]).text} {translator(SENTENCES[1]).text}"


def test_documents_of_a_look(translator):
    [document] = LookInto(translator.settings, tree=True)(translator, SENTENCES[:1], Audience())
    assert document["model"] == translator.runs[0].folder.path.name
    assert document["target"]["text"] == translator(SENTENCES[0]).text
    assert document["tree"]["nodes"]


def test_the_links_of_a_look_are_those_measured_for_the_run(tiny_run, tmp_path):
    folder = shutil.copytree(tiny_run, tmp_path / "run")
    translator = load(folder, device="cpu")
    run, settings = translator.runs[0], AlignmentSettings(layer=1, head=2)
    measured = Measured(settings=settings, by="gold", value=0.1, pairs=1)
    (folder / KEPT).write_text(measured.model_dump_json())
    accept(folder)
    [document] = LookInto(translator.settings)(translator, SENTENCES[:1], Audience())
    assert document["alignment"]["by"] == str(best_alignment(run)) == str(settings)


def test_alignments_are_those_measured_for_the_run(translator):
    pairs, run = [Pair("Il part.", "He leaves."), Pair("Il part .", "He")], translator.runs[0]
    found = Align()(translator, pairs, Audience())
    assert found == list(align_pairs(run, pairs, best_alignment(run)))


def test_a_sentence_that_is_too_long_to_align(translator):
    with pytest.raises(SearchError, match="send its sentences one by one"):
        Align()(translator, [Pair("Il part.", "He " * 99)], Audience())


@pytest.mark.parametrize("streamed", [False, True])
def test_addresses_in_sentences_are_held_as_on_every_way(translator, monkeypatch, streamed):
    monkeypatch.setattr(translator, "input", InputSettings())
    lines, crowd = [SENTENCES[1], "Jane visite https://example.com demain."], Audience()
    answers = Translate(translator.settings, streamed=streamed)(translator, lines, crowd)
    assert [one.text for one in answers] == [one.text for one in translator.translate(lines)]
    assert {number for number, text in crowd.told if text} == ({0} if streamed else set())
    whole = Translate(translator.settings, whole=True)(translator, lines, Audience())
    assert whole[1].text == translator(lines[1], split=False).text
