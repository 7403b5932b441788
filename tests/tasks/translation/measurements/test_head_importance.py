import pytest

from regard.decoding.settings import search_settings
from regard.errors import CorpusError, SettingsError
from regard.inspection.interventions import Silenced
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import pick_device
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.translation.look import ablate_each_head, list_answer_ablations
from regard.tasks.translation.measurements.head_importance import (
    HeadImportanceSettings,
    measure_head_importance,
)
from regard.tasks.translation.pipeline import Translator, load

SOURCES = ["Jane visite l'Afrique en septembre.", "Elle danse."]
RIGHT = ["Jane visits Africa in September.", "She dances in the sea."]
WRONG = ["Jane visits Africa in September.", "He walks to the mountain."]


class Scripted:
    """A translator that is right but without some heads."""

    def __init__(self, runs, needed):
        self.runs, self.needed, self.asked = runs, needed, []

    def translate(self, texts, settings=None, *, changes=(), split=None):
        self.asked.append(tuple(changes))
        found = WRONG if any(map(self.needed, changes)) else RIGHT
        texts = found * (len(texts) // len(found))
        return [Answer("", (Candidate(text, 0.0, 0.0),)) for text in texts]


@pytest.fixture(scope="module")
def runs(tiny_run):
    return [open_run(tiny_run, device=pick_device("cpu"))]


def test_what_a_removal_costs(runs):
    scripted = Scripted(runs, lambda one: one.head in (None, 2) and one.layer == 1)
    told = []
    found = measure_head_importance(
        scripted,
        SOURCES * 10,
        RIGHT * 10,
        HeadImportanceSettings(parts=("cross",)),
        progress=lambda *n: told.append(n),
    )
    assert found.baseline.value == pytest.approx(100)
    assert found.sentences == 20
    assert [(one.layer, one.head) for one in found.removals] == [
        *((0, head) for head in (0, 1, 2, 3, None)),
        *((1, head) for head in (0, 1, 2, 3, None)),
    ]
    dear = [one for one in found.removals if one.cost]
    assert [(one.layer, one.head) for one in dear] == [(1, 2), (1, None)]
    assert dear[0].bleu == pytest.approx(100 - dear[0].cost)
    assert dear[0].cost > 20
    assert dear[0].changed == 0.5
    assert found.removals[0].p_value == 1  # the same translations
    assert dear[0].p_value < 1
    assert len(found.heads) == 8
    assert found.free == tuple(
        Silenced("cross", *one) for one in [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1), (1, 3)]
    )
    assert scripted.asked[-1] == found.free
    assert found.without_free == pytest.approx(100)
    assert told == [(done, 12) for done in range(13)]


def test_heads_that_are_free_alone_may_not_be_together(runs):
    class Pair(Scripted):
        def translate(self, texts, settings=None, *, changes=(), split=None):
            self.needed = lambda one: len(changes) > 1
            return super().translate(texts, settings, changes=changes)

    found = measure_head_importance(
        Pair(runs, None), SOURCES, RIGHT, HeadImportanceSettings(parts=("cross",))
    )
    assert len(found.free) == 8
    assert found.without_free < 80


def test_what_counts_as_free_is_a_setting(runs):
    settings = HeadImportanceSettings(parts=("cross",), tolerance=100)
    found = measure_head_importance(Scripted(runs, lambda one: True), SOURCES, RIGHT, settings)
    assert len(found.free) == 8
    none = measure_head_importance(
        Scripted(runs, lambda one: True), SOURCES, RIGHT, HeadImportanceSettings(parts=("cross",))
    )
    assert none.free == ()
    assert none.without_free is None


def test_a_real_model_is_swept(translator):
    references = [translator(text, beam=1).text for text in SOURCES]
    found = measure_head_importance(
        translator,
        SOURCES,
        references,
        HeadImportanceSettings(parts=("cross",)),
        search=search_settings(translator.settings, beam=1),
    )
    assert found.baseline.value == pytest.approx(100)
    assert "bs:1000|seed:12345" in found.baseline.signature
    assert "tok:13a" in found.baseline.signature
    assert any(one.cost > 0 for one in found.removals)
    shown = found.to_json()
    assert shown["removals"][4] == found.removals[4]._asdict()
    assert shown["baseline"]["signature"] == found.baseline.signature


def test_an_only_head_is_removed_once(other_run):
    other = load(other_run, device="cpu")
    found = measure_head_importance(
        other, SOURCES, RIGHT, search=search_settings(other.settings, beam=1)
    )
    assert [one[:3] for one in found.removals] == [("cross", 0, 0)]


def test_head_importance_needs_one_model_with_heads_and_paired_lines(runs, other_run, translator):
    both = Translator([*runs, open_run(other_run, device=pick_device("cpu"))])
    with pytest.raises(SettingsError, match="head importance is measured for one model"):
        measure_head_importance(both, SOURCES, RIGHT)
    with pytest.raises(
        SettingsError, match="family rnnsearch has no encoder attention whose heads"
    ):
        measure_head_importance(
            load(other_run, device="cpu"), SOURCES, RIGHT, HeadImportanceSettings(parts=["encoder"])
        )
    with pytest.raises(CorpusError, match="lines must pair up, found 2 sources, 1 references"):
        measure_head_importance(translator, SOURCES, RIGHT[:1])
    with pytest.raises(CorpusError, match="nothing to measure"):
        measure_head_importance(translator, [], [])


FRENCH = "Jane visite Paris."


def test_each_head_and_each_layer_is_silenced_once(translator):
    answer = translator.look(FRENCH)
    found = ablate_each_head(translator, answer)
    places = [(one["part"], one["layer"], one["head"]) for one in found]
    layers = {"encoder": 3, "decoder": 2, "cross": 2}
    assert sorted(places, key=str) == sorted(
        (
            (part, layer, head)
            for part, count in layers.items()
            for layer in range(count)
            for head in (None, 0, 1, 2, 3)
        ),
        key=str,
    )
    assert len(list_answer_ablations(answer)) == len(found) == 35


def test_the_text_is_that_of_the_changed_translator(translator):
    answer = translator.look(FRENCH)
    for one in ablate_each_head(translator, answer):
        if (one["part"], one["layer"]) == ("cross", 1):
            change = Silenced("cross", 1, one["head"])
            [ablated] = translator.translate([FRENCH], changes=[change])
            assert one["text"] == ablated.text


def test_heads_of_a_look_are_silenced_under_its_options(translator):
    text = f"{SOURCES[0]} {SOURCES[1]}"
    options = {"prefix": "Jane", "forbidden": ["Africa"], "split": True}
    greedy = search_settings(translator.settings, beam=1)
    looked = translator.look(text, greedy, **options)
    [expected] = translator.translate([text], greedy, changes=[Silenced("cross", 0)], **options)
    found = {(one["part"], one["layer"], one["head"]): one["text"] for one in looked.ablate()}
    assert found["cross", 0, None] == expected.text
    assert all(one.startswith("Jane") and "Africa" not in one for one in found.values())


def test_a_layer_of_one_head_is_silenced_once(other_run):
    from_one = load(other_run, device="cpu")
    found = ablate_each_head(from_one, from_one.look(FRENCH))
    assert [(one["part"], one["layer"], one["head"]) for one in found] == [("cross", 0, 0)]


def test_without_recorded_attention_no_head_is_ablated(translator):
    answer = translator(FRENCH)
    assert ablate_each_head(translator, answer) == []
    assert len(list_answer_ablations(answer)) == 0
