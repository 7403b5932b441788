import json

import numpy as np
import pytest
import torch

import regard
from chats import chat_recipe, train_chat, write_dialogues
from regard.corpora.pairs.dialogues import format_history
from regard.decoding.settings import DecodingSettings, SamplingSettings, search_settings
from regard.engines.ctranslate2.exporter import require_exportable
from regard.errors import RunError, SettingsError
from regard.evaluation.perplexity import sequence_log_probs
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import RunFolder, load_data
from regard.recipes.train_run import train
from regard.tasks.translation import pipeline as translation
from regard.tasks.translation.chat.pipeline import Chatbot
from regard.tasks.translation.training_inputs import prepare
from tiny import Quiet

TURNS = ["Do you like tea in Rome?", "Why do you ask?", "I am going to Rome."]
HISTORY = "<user> Do you like tea in Rome? <assistant> Why do you ask? <user> I am going to Rome."


@pytest.fixture(scope="module")
def chatbot(chat_run):
    return regard.load(chat_run, device="cpu")


def test_a_run_of_the_task_is_a_chatbot(chatbot, chat_run):
    assert isinstance(chatbot, Chatbot)
    assert repr(chatbot) == f"<Chatbot {chat_run}, engine native>"


@pytest.mark.parametrize("text", [HISTORY, "\t".join(TURNS), "\n".join(TURNS)])
def test_a_history_is_read_with_its_speakers_however_it_is_written(chatbot, text):
    [ids] = chatbot.source_ids([text])
    assert chatbot.sources[0].decode(ids) == HISTORY
    assert chatbot(text).text == chatbot(HISTORY).text


def test_a_line_of_one_turn_is_the_users(chatbot):
    [ids] = chatbot.source_ids(["Do you like tea in Rome?"])
    assert chatbot.sources[0].pieces(ids)[0] == "▁<user>"


def test_the_oldest_words_of_a_long_history_are_cut_and_it_is_said(chatbot):
    [answer] = chatbot.translate(["\n".join(TURNS * 3)])
    assert answer.notes == ("only the last 24 of the 63 tokens of the history were read",)
    [ids] = chatbot.source_ids(["\n".join(TURNS * 3)])
    assert len(ids) == 24
    assert chatbot.sources[0].decode(ids).endswith("<user> I am going to Rome.")


def test_training_reads_the_newest_tokens_too(tmp_path):
    recipe = chat_recipe(write_dialogues(tmp_path / "a.jsonl"), "corpus.dialogue.history_tokens=5")
    inputs = prepare(recipe, tmp_path / "run", lambda message: None)
    source, _ = inputs.valid.take(np.arange(3))
    assert max(inputs.train.lengths().source) == 5
    texts = [pair.source for pair in inputs.data.read("valid")][:3]
    cut = [inputs.tokenizers.source.decode(row.tolist()) for row in source.rows()]
    assert all(text.endswith(end) for text, end in zip(texts, cut, strict=True))


def test_blank_lines_have_blank_answers(chatbot):
    assert [answer.text for answer in chatbot.translate(["", " \t\n"])] == ["", ""]
    assert chatbot.conversation().say(" ").text == ""


def test_attention_of_an_answer_has_the_speakers_among_its_words(chatbot):
    answer = chatbot(HISTORY, look=True)
    attention = answer.attention.attention()
    assert attention.columns.pieces[0] == "<user>"
    assert " ".join(attention.rows.pieces) == answer.text


def test_answers_are_chosen_by_mutual_information(chatbot):
    plain = chatbot.settings.model_copy(update={"reranking": None, "n_best": 6})
    candidates = chatbot(HISTORY, settings=plain).candidates
    targets = chatbot.target.encode([one.text for one in candidates])
    model = chatbot.runs[0].model
    priors = sequence_log_probs(model, [()] * len(targets), targets, budget=100)
    scores = {
        one.text: one.log_probability - 0.5 * prior
        for one, prior in zip(candidates, priors, strict=True)
    }
    chosen = chatbot(HISTORY)
    assert chosen.text == max(scores, key=scores.get)
    assert chosen.score == pytest.approx(max(scores.values()), abs=1e-3)


def test_a_conversation_remembers_until_it_is_reset(chatbot):
    conversation = chatbot.conversation()
    first = conversation.say("Do you like tea in Rome?")
    second = conversation.say("Why?")
    turns = ["Do you like tea in Rome?", first.text, "Why?", second.text]
    assert conversation.turns == turns
    assert second.source == "Why?"
    expected = chatbot.translate([format_history(turns[:3])], n_best=4, first=2)[0]
    assert second.text in [one.text for one in expected.candidates]
    conversation.reset()
    assert conversation.turns == []
    assert conversation.say("Do you like tea in Rome?").text == first.text


def test_a_conversation_does_not_repeat_itself(chatbot):
    conversation = chatbot.conversation()
    said = [conversation.say("Do you like tea in Rome?").text for _ in range(3)]
    assert len(set(said)) == 3


def test_the_seed_decides(chatbot):
    def say(seed):
        sampling = {"temperature": 3.0, "seed": seed}
        settings = search_settings(chatbot.settings, sampling=sampling)
        return chatbot.conversation(settings).say("Do you like tea in Rome?").text

    assert say(1) == say(1)
    assert len({say(seed) for seed in range(4)}) > 1


def test_without_context_every_history_has_the_same_tokens(tmp_path):
    run = train_chat(
        tmp_path / "run",
        "corpus.dialogue.history_tokens=0",
        "training.steps=2",
        "training.validation.every=2",
        "decoding.reranking=null",
    )
    chatbot = regard.load(run, device="cpu")
    assert chatbot.source_ids([HISTORY, "Hello."]) == [[], []]
    greedy = DecodingSettings(beam={"size": 1}, rules={"min_length": 1, "max_length": 5})
    texts = {answer.text for answer in chatbot.translate([HISTORY, "Hello."], greedy)}
    assert len(texts) == 1
    assert texts != {""}


def test_a_chatbot_is_no_translator_and_the_other_way_round(chat_run, tiny_run):
    with pytest.raises(RunError, match="its task is chat, not translation"):
        translation.load(chat_run, device="cpu", engine="native")
    with pytest.raises(RunError, match="its task is translation, not chat"):
        Chatbot([open_run(tiny_run, device=torch.device("cpu"))])
    with pytest.raises(SettingsError, match="needs the native engine"):
        regard.load(chat_run, engine="ctranslate2")


def test_a_chatbot_is_not_exported(chat_run):
    run = open_run(chat_run, device=torch.device("cpu"))
    with pytest.raises(SettingsError, match="its task is chat, and exports can only translate"):
        require_exportable(run)


def test_the_run_is_scored_beside_people_and_the_commonest_answer(chat_run):
    scores = json.loads((chat_run / "scores.json").read_text())
    names = ("perplexity", "distinct-2, its own", "distinct-2, people's", "BLEU, its own")
    assert all(name in scores for name in names)
    assert any(name.startswith("BLEU, always '") for name in scores)
    card = (chat_run / "card.md").read_text()
    assert "distinct-2, its own" in card
    assert scores["sentences"] <= load_data(RunFolder(chat_run)).pairs["test"]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("task=translation", "task: chat and a corpus of dialogues need each other"),
        ("text.source.symbols=[<user>]", r"set text\.source\.symbols to \[<user>, <assistant>\]"),
        ("corpus={name: travel}", "task: chat and a corpus of dialogues need each other"),
    ],
)
def test_what_a_chatbot_needs(tmp_path, override, message):
    with pytest.raises(SettingsError, match=message):
        chat_recipe(tmp_path / "a.jsonl", override)


def test_samples_can_be_had_without_reranking(chatbot):
    settings = DecodingSettings(n_best=2, sampling=SamplingSettings(), rules={"max_length": 5})
    assert len(chatbot(HISTORY, settings=settings).candidates) == 2


def test_a_run_that_was_stopped_ends_with_the_same_weights(chat_run, tmp_path):
    folder, stops = RunFolder(tmp_path / "run"), iter([False] * 20 + [True])
    recipe = chat_recipe(chat_run.parent / "chat.jsonl")
    for stop in (lambda: next(stops), lambda: False):
        train(recipe, folder, device=torch.device("cpu"), reporter=Quiet(), stop_requested=stop)
    assert folder.weights("model").read_bytes() == RunFolder(chat_run).weights("model").read_bytes()
