from types import SimpleNamespace

import pytest
import torch

from regard.alignment.word_axes import tokenize_text
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.engines.native import unknown_words
from regard.engines.native.unknown_words import (
    UnknownWordReplacer,
    translate_word,
)
from regard.errors import SettingsError
from regard.inspection.interventions import Silenced
from regard.inspection.recording.attention_map import AttentionMaps
from regard.recipes.open_run import open_run
from regard.tasks.translation.pipeline import Translator, load
from regard.text.build import Tokenizers, train_tokenizer
from regard.text.settings import TextSettings, TokenizerSettings
from regard.text.special_tokens import UNK
from task_runs import untrained_translator
from tiny import tiny_recipe

CPU = torch.device("cpu")
SENTENCES = ["Jane visite l'Afrique en septembre.", "Paul aime Kampala.", "", "Elle danse."]
LONG = "Jane visite l'Afrique en septembre. " * 9
KEPT = DecodingSettings(
    beam=BeamSettings(size=2), rules=RuleSettings(max_length=30, allow_unknown=True)
)


def labelled(weights, seen=None):
    """Stands for the model: target tokens attend to source tokens by `weights`."""

    def attend(run, pairs, *, hook=None):
        for pair in pairs:
            layers = torch.zeros(2, 3, len(pair.target) + 1, len(pair.source) + 1)
            for (row, column), weight in weights.items():
                layers[..., row, column] = weight
            if seen is not None:
                seen.append(pair)
            yield AttentionMaps("cross", layers, pair.rows, pair.columns)

    return attend


def filled(monkeypatch, text, answer, weights, *, entries=None, kind="words", **settings):
    """The replacements of the unknown words of `answer`, a translation of `text`."""
    chosen = TokenizerSettings(kind=kind, **settings)
    source = train_tokenizer(["la mer aime Paul."], TokenizerSettings(kind=kind))
    target = train_tokenizer(["Paul loves the sea."], chosen)
    run = SimpleNamespace(
        tokenizers=Tokenizers(source, target),
        recipe=SimpleNamespace(text=TextSettings(target=chosen, joint=False)),
    )
    monkeypatch.setattr(unknown_words, "token_attention", labelled(weights))
    [ids] = target.encode([answer])
    [words] = UnknownWordReplacer(run, entries or {}).find_replacements(
        [(tokenize_text(text, source), ids)]
    )
    return words


# pieces of "Paul aime Kampala.":    Paul, ▁aime, ▁, <unk>, ., </s>
# pieces of "Paul loves Entebbe.":   Paul, ▁loves, ▁, <unk>, ., </s>
SAID = "Paul aime Kampala.", "Paul loves Entebbe."


def test_the_attended_source_word_is_copied(monkeypatch):
    assert filled(monkeypatch, *SAID, {(3, 3): 0.9, (3, 1): 0.1}) == ["Kampala"]
    assert filled(monkeypatch, *SAID, {(3, 3): 0.2, (3, 1): 0.8}) == ["aime"]


def test_unknown_words_may_be_translated_by_a_dictionary(monkeypatch):
    entries = {"Kampala": "New Kampala", "aime": "loves"}
    assert filled(monkeypatch, *SAID, {(3, 3): 1.0}, entries=entries) == ["New Kampala"]
    assert filled(monkeypatch, *SAID, {(3, 0): 1.0}, entries=entries) == ["Paul"]


def test_attention_to_a_space_is_attention_to_its_word(monkeypatch):
    assert filled(monkeypatch, *SAID, {(3, 2): 0.4, (3, 3): 0.2, (3, 1): 0.3}) == ["Kampala"]
    assert filled(monkeypatch, *SAID, {(2, 3): 0.8, (3, 1): 0.5}) == ["Kampala"]


def test_the_end_and_marks_are_no_words(monkeypatch):
    weights = {(3, 5): 0.6, (3, 4): 0.3, (3, 1): 0.02, (3, 3): 0.08}
    assert filled(monkeypatch, *SAID, weights) == ["Kampala"]


def test_an_unknown_punctuation_mark_is_a_word(monkeypatch):
    assert filled(monkeypatch, "Paul aime €", "Paul loves €", {(3, 3): 0.6, (3, 1): 0.4}) == ["€"]


def test_a_word_stays_unknown_where_nothing_is_looked_at(monkeypatch):
    assert filled(monkeypatch, *SAID, {(3, 5): 1.0}) == ["⁇"]
    assert filled(monkeypatch, "", "Entebbe", {(1, 0): 1.0}) == ["⁇"]


def test_each_unknown_word_has_its_own_replacement(monkeypatch):
    # ▁, Zoé, ▁aime, ▁, Kampala  and  ▁, Entebbe, ▁, Zoe, ▁loves
    weights = {(1, 4): 1.0, (3, 1): 1.0, (4, 2): 1.0}
    assert filled(monkeypatch, "Zoé aime Kampala", "Entebbe Zoe loves", weights) == [
        "Kampala",
        "Zoé",
    ]


def test_words_have_the_form_of_the_answers(monkeypatch):
    said = "Paul aime KAMPALA.", "Paul loves Entebbe."
    assert filled(monkeypatch, *said, {(3, 3): 1.0}) == ["KAMPALA"]
    shouted = {"KAMPALA": "Entebbe"}
    lowered = {"lowercase": True, "entries": shouted}
    assert filled(monkeypatch, *said, {(3, 3): 1.0}, lowercase=True) == ["kampala"]
    assert filled(monkeypatch, *said, {(3, 3): 1.0}, **lowered) == ["entebbe"]


def test_characters_stand_for_characters(monkeypatch):
    # P a u l ␣ ô  and  P a u l ␣ w
    weights = {(5, 5): 0.7, (5, 3): 0.3}
    assert filled(monkeypatch, "Paul ô", "Paul w", weights, kind="characters") == ["ô"]
    entries = {"ô": "oh"}
    said = filled(monkeypatch, "Paul ô", "Paul w", weights, kind="characters", entries=entries)
    assert said == ["oh"]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("mer", "sea"),
        ("Mer", "Sea"),
        ("MER", "Sea"),
        ("Été", "Summer"),
        ("e\u0301te\u0301", "summer"),
        ("Lune", "Luna"),
        ("lune", "lune"),
        ("Kampala", "Kampala"),
    ],
)
def test_words_are_looked_up_as_they_are_then_in_small_letters(word, said):
    assert translate_word(word, {"mer": "sea", "été": "summer", "Lune": "Luna"}) == said


@pytest.fixture(scope="module")
def unsure(words_run):
    """A translator that knows few words."""
    return load(words_run, device="cpu", engine="native")


def blind(run):
    recipe = tiny_recipe("model={family: rnn, width: 8}")
    recipe = recipe.model_copy(update={"text": run.recipe.text})
    return untrained_translator(recipe, run.tokenizers, run.folder.path)


def pattern(kept, said):
    """Whether `said` is `kept` with some word for each unknown one: which words they are."""
    parts = kept.split("⁇")
    words, rest = [], said
    assert rest.startswith(parts[0])
    rest = rest[len(parts[0]) :]
    for part in parts[1:]:
        end = rest.find(part, 1) if part else len(rest)
        assert end > 0, (kept, said)
        words.append(rest[:end])
        rest = rest[end + len(part) :]
    assert not rest
    return words


def test_unknown_words_are_copied_and_nothing_else_changes(unsure):
    kept = unsure.translate(SENTENCES, KEPT)
    said = unsure.translate(SENTENCES, KEPT, unknown={})
    assert any("⁇" in answer.text for answer in kept)
    for source, one, other in zip(SENTENCES, kept, said, strict=True):
        assert "⁇" not in other.text
        assert other.score == one.score
        assert other.text.count(" ") == one.text.count(" ")
        for word in pattern(one.text, other.text):
            assert word in source
    assert said[2].text == ""


def test_asking_for_it_allows_unknown_words(unsure):
    never = DecodingSettings(beam=BeamSettings(size=2), rules=RuleSettings(max_length=30))
    assert "⁇" not in "".join(answer.text for answer in unsure.translate(SENTENCES, never))
    said = unsure.translate(SENTENCES, never, unknown={})
    assert [one.text for one in said] == [
        one.text for one in unsure.translate(SENTENCES, KEPT, unknown={})
    ]


def test_a_dictionary_has_the_word(unsure):
    words = {word: "somewhere else" for word in ("Jane", "visite", "Afrique", "septembre", "en")}
    [copied] = unsure.translate(SENTENCES[:1], KEPT, unknown={})
    [said] = unsure.translate(SENTENCES[:1], KEPT, unknown={**words, "l": "l"}, look=True)
    assert "omewhere else" in said.text
    assert "omewhere else" not in copied.text
    attention = said.attention.attention()
    assert attention.rows.words == tuple(said.text.split())
    assert all(row < len(said.text.split()) for _, row in said.attention.alignment())


def test_one_line_may_be_asked_for(unsure):
    assert unsure(SENTENCES[0], settings=KEPT, unknown={}).text == (
        unsure.translate(SENTENCES[:1], KEPT, unknown={})[0].text
    )


def test_all_of_the_n_best(unsure):
    request = KEPT.model_copy(update={"n_best": 2})
    [kept] = unsure.translate(SENTENCES[:1], request)
    [said] = unsure.translate(SENTENCES[:1], request, unknown={})
    assert len(said.candidates) == len(kept.candidates) == 2
    for one, other in zip(kept.candidates, said.candidates, strict=True):
        assert "⁇" not in other.text
        assert set(pattern(one.text, other.text)) <= {
            "Jane",
            "visite",
            "l",
            "Afrique",
            "en",
            "septembre",
        }


def test_a_long_line_in_parts(unsure):
    lines = [SENTENCES[1], LONG + "Kampala", ""]
    kept = unsure.translate(lines, KEPT, split=False)
    said = unsure.translate(lines, KEPT, unknown={}, split=False)
    assert any("parts" in note for note in said[1].notes)
    assert "⁇" in kept[1].text
    assert "⁇" not in said[1].text
    known = {word.strip(".") for word in LONG.replace("'", " ").split()} | {"Kampala"}
    assert set(pattern(kept[1].text, said[1].text)) <= known


def test_parts_know_the_words_of_their_own(unsure, monkeypatch):
    seen = []
    monkeypatch.setattr(unknown_words, "token_attention", labelled({}, seen))
    said = unsure.translate([LONG], KEPT, unknown={})
    assert len(seen) > 1
    assert "⁇" in said[0].text  # nothing is looked at
    limit = unsure.limit
    assert all(len(pair.source) <= limit for pair in seen)


def test_only_unknown_words_cost(unsure, monkeypatch):
    seen = []
    monkeypatch.setattr(unknown_words, "token_attention", labelled({}, seen))
    kept = unsure.translate(SENTENCES, KEPT)
    unsure.translate(SENTENCES, KEPT, unknown={})
    assert len(seen) == sum("⁇" in answer.text for answer in kept)
    assert all(UNK in pair.target for pair in seen)


def test_a_prefix_keeps_its_words(unsure):
    for answer in unsure.translate(SENTENCES[:2], KEPT, prefix="Zanzibar and", unknown={}):
        assert answer.text.startswith("Zanzibar and")


def test_a_prefix_that_is_cut_short(unsure):
    short = DecodingSettings(beam=BeamSettings(size=1), rules=RuleSettings(max_length=2))
    [answer] = unsure.translate(SENTENCES[:1], short, prefix="Zanzibar or Kampala", unknown={})
    assert answer.text == "Zanzibar"


def test_forbidden_words_are_no_replacements(unsure):
    said = unsure.translate(SENTENCES[:1], KEPT, unknown={})[0].text
    kept = unsure.translate(SENTENCES[:1], KEPT)[0].text
    word = pattern(kept, said)[0]
    [answer] = unsure.translate(SENTENCES[:1], KEPT, unknown={}, forbidden=[word])
    assert word not in answer.text.replace("'", " ").replace(".", " ").split()
    assert "⁇" in answer.text


def test_silenced_heads_replace_no_unknown_words(unsure):
    every = [Silenced("cross", layer) for layer in (0, 1)]
    kept = unsure.translate(SENTENCES[:2], KEPT, changes=every)
    said = unsure.translate(SENTENCES[:2], KEPT, changes=every, unknown={})
    assert [one.text for one in said] == [one.text for one in kept]


def test_unknown_words_need_a_model_with_attention(unsure, words_run):
    alone = Translator([blind(open_run(words_run, device=CPU))])
    assert len(alone.translate(SENTENCES, KEPT)) == 4
    with pytest.raises(
        SettingsError,
        match=r"unknown: .*words \(rnn\): replacing an unknown word needs attention to the source, "
        "to find the word that it stands for; use a model with attention, or keep unknown words",
    ):
        alone.translate(SENTENCES, KEPT, unknown={})


def test_the_first_model_with_attention_replaces_unknown_words(unsure, words_run):
    run = open_run(words_run, device=CPU)
    both = Translator([blind(run), run])
    for answer in both.translate(SENTENCES, KEPT, unknown={}):
        assert "⁇" not in answer.text
