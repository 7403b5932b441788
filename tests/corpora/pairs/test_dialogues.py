import json
from functools import partial

import pytest

from regard.corpora.corpus import Pair
from regard.corpora.pairs.build import UNCLEANED, CorpusSettings, build_corpus
from regard.corpora.pairs.dialogues import (
    DialogueSettings,
    dialogue_pairs,
    format_history,
    parse_history,
    split_dialogues,
)
from regard.corpora.readers.dialogue_files import Dialogue
from regard.corpora.splits import SplitSettings
from regard.errors import CorpusError, SettingsError
from regard.recipes.recipe_files import make_recipe

TURNS = ("Are you going out?", "Yes.", "Where to?")


def test_the_last_turn_is_the_users_and_speakers_alternate():
    assert format_history(TURNS) == ("<user> Are you going out? <assistant> Yes. <user> Where to?")
    assert format_history(TURNS, 2) == "<assistant> Yes. <user> Where to?"
    assert format_history([]) == ""


def test_a_turn_cannot_speak_for_another():
    assert format_history(["I am\t<assistant> here"]) == "<user> I am assistant here"


@pytest.mark.parametrize("text", [format_history(TURNS), "\n".join(TURNS), "\t".join(TURNS)])
def test_a_history_can_be_parsed(text):
    assert parse_history(text) == list(TURNS)


def pairs(dialogue, *, training, **settings):
    return list(dialogue_pairs([dialogue], DialogueSettings(**settings), training=training))


def test_each_answer_is_a_pair_and_in_training_each_turn_too():
    dialogue = Dialogue(TURNS[:2], ("No.", "Perhaps."))
    history = "<assistant> Are you going out? <user> Yes."
    answers = [Pair(history, "No."), Pair(history, "Perhaps.")]
    turn = Pair("<user> Are you going out?", "Yes.")
    assert pairs(dialogue, training=False) == answers
    assert pairs(dialogue, training=True, prior=0.0) == [*answers, turn]
    assert pairs(dialogue, training=True, prior=0.0, learn_turns=False) == answers
    prior = [Pair("", one.target) for one in (*answers, turn)]
    assert pairs(dialogue, training=True, prior=1.0) == [*answers, turn, *prior]


def test_without_answers_each_turn_answers_those_before_it():
    found = pairs(Dialogue(TURNS), training=False, max_turns=1)
    assert found == [Pair(f"<user> {TURNS[0]}", TURNS[1]), Pair("<user> Yes.", TURNS[2])]


def conversations(count):
    """Dialogues of which each second one goes on where the one before it ended."""
    for number in range(count):
        shared = f"this is a long turn of number {number // 2}"
        turns = ("Hello.", shared) if number % 2 else (shared, "Really?")
        yield Dialogue(turns, ("Yes.", f"No {number}."))


def split(dialogues, **files):
    given = {"train": dialogues, **files}
    readers = {name: partial(iter, some) for name, some in given.items()}
    found = split_dialogues("some", readers, SplitSettings(valid=20, test=20))
    return {name: list(read()) for name, read in found.items()}


def test_no_conversation_is_in_two_splits():
    dialogues = list(conversations(200))
    found = split(dialogues)
    long_turns = {
        name: {turn for one in some for turn in one.turns if "long" in turn}
        for name, some in found.items()
    }
    assert not long_turns["train"] & (long_turns["valid"] | long_turns["test"])
    assert not long_turns["valid"] & long_turns["test"]
    assert sum(len(one.answers) for one in found["test"]) == 20
    assert 160 <= len(found["train"]) <= 180
    assert all(len(set(some)) == len(some) for some in found.values())
    assert set(split(dialogues[::-1])["test"]) == set(found["test"])


def test_lines_of_one_id_stay_together():
    found = split([Dialogue(("a", f"b {n}"), id=str(n // 4)) for n in range(400)])
    ids = {name: {one.id for one in some} for name, some in found.items()}
    assert sum(map(len, ids.values())) == 100


def test_given_splits_are_kept_and_their_conversations_left_out_of_training():
    dialogues = list(conversations(40))
    found = split(dialogues, test=dialogues[:1])
    assert found["test"] == dialogues[:1]
    assert dialogues[0] not in found["train"]
    assert dialogues[1] not in found["train"] + found["valid"]


def test_too_few_dialogues_are_an_error():
    with pytest.raises(CorpusError, match="2 dialogues are too few"):
        split([Dialogue(("a", "b")), Dialogue(("c", "d"))])


def test_a_file_of_dialogues_is_a_corpus_that_is_not_cleaned(tmp_path):
    file = tmp_path / "mine.jsonl"
    lines = ({"turns": one.turns, "answers": one.answers} for one in conversations(60))
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    raw = {"train": {"data": str(file)}, "dialogue": {"prior": 0, "history_tokens": 9}}
    settings = CorpusSettings.model_validate({**raw, "split": {"valid": 6, "test": 6}})
    assert settings.cleaning == UNCLEANED
    assert settings.max_source_tokens == 9
    corpus = build_corpus(settings)
    assert corpus.splits.keys() == {"train", "valid", "test"}
    assert all(pair.source.startswith("<") for pair in corpus.splits["train"]())
    file.write_text('{"turns": 5}\n', encoding="utf-8")
    with pytest.raises(CorpusError, match=r"line 1: turns: expected.*--skip-bad"):
        build_corpus(settings)


@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ({"train": {"data": "a.tsv"}, "dialogue": {}}, "dialogue would have no effect"),
        (
            {"train": {"data": "a.jsonl"}, "valid": {"data": "b.tsv"}},
            "cannot be combined with other files",
        ),
        ({"train": {"data": "-", "format": "jsonl"}}, "several times"),
        ({"train": [{"data": "a.jsonl", "weight": 2}]}, "weight has no effect"),
        ({"train": {"data": "a.jsonl"}, "languages": ["en", "de"]}, "one language, got en-de"),
        ({"train": {"data": "a.jsonl", "header": True}}, "header would have no effect"),
    ],
)
def test_settings_that_do_not_go_with_dialogues_are_refused(corpus, message):
    with pytest.raises(SettingsError, match=message):
        make_recipe({"name": "x", "corpus": corpus}, where="x")
