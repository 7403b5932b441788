"""What each token of a text looks at in a language model, and what may come next."""

import base64
import json
import re

import matplotlib.text
import pytest
import torch

from regard.decoding.settings import DecodingSettings
from regard.errors import SettingsError
from regard.inspection.interventions import Flattened, Silenced
from regard.inspection.recording.recorder import compose_hooks
from regard.models.language.awd_lstm import AwdLstm, AwdLstmSettings
from regard.models.language.gpt import Gpt, GptSettings
from regard.recipes.open_run import Run
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder
from regard.tasks.language import pipeline as completer_module
from regard.tasks.language.pipeline import Completer
from regard.tasks.language.task import LanguageModelling
from regard.text.build import train_tokenizer
from regard.types import Padded

TEXT = "the cat sat on the mat.\nthe dog sat on the cat.\n"
PROMPT = "the dog sat"
LAYERS, HEADS, CONTEXT = 2, 4, 24


@pytest.fixture(scope="module")
def completer(tmp_path_factory):
    return make_completer(tmp_path_factory.mktemp("run"))


def make_completer(folder, model=None, **changed):
    raw = {
        "task": "language-model",
        "name": "tiny",
        "corpus": {"train": "none.txt", "documents": "text"},
        "text": {"kind": "characters", "size": 0},
        "model": model or {"family": "gpt"},
    }
    task = LanguageModelling(make_recipe(raw, where="tiny"), folder)
    task.tokenizer = train_tokenizer(TEXT.splitlines(keepends=True), task.recipe.text)
    settings = {"layers": LAYERS, "width": 16, "heads": HEADS, "context": CONTEXT}
    torch.manual_seed(3)
    built = (
        AwdLstm(AwdLstmSettings(layers=2, width=6, units=8), task.tokenizer.size)
        if model
        else Gpt(GptSettings(**(settings | changed)), task.tokenizer.size)
    ).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            if parameter.ndim > 1:
                parameter.normal_(std=0.8)
    recipe = task.recipe.model_copy(update={"decoding": DecodingSettings()})
    return Completer(Run(recipe, task, built, RunFolder(folder)))


def next_probabilities(completer, text, *hooks):
    """The probabilities (V,) of the token after a text, computed without the pipeline."""
    ids = torch.tensor([completer.tokenizer.encode([text])[0]])
    whole = Padded(ids, torch.ones_like(ids, dtype=torch.bool))
    nothing = Padded(ids[:, :0], whole.mask[:, :0])
    with torch.inference_mode():
        memory = completer.model.encode(nothing)
        features = completer.model.decode(whole, memory, hook=compose_hooks(*hooks)).features
        return completer.model.logits(features[0, -1]).softmax(-1)


def test_every_layer_and_head_of_the_text_looking_at_itself(completer):
    maps = completer.look(PROMPT).attention.attention("decoder", words=False)
    size = len(PROMPT)
    assert maps.weights.shape == (LAYERS, HEADS, size, size)
    assert maps.rows.pieces == maps.columns.pieces == tuple(PROMPT.replace(" ", "▁"))
    torch.testing.assert_close(maps.weights.sum(-1), torch.ones(LAYERS, HEADS, size))
    assert (maps.weights.triu(1) == 0).all()
    assert maps.merge_pieces().rows.words == ("the", "dog", "sat")


def test_the_next_tokens_are_those_of_the_model(completer):
    look = completer.look(PROMPT)
    probabilities, ids = next_probabilities(completer, PROMPT).topk(5)
    assert [one.piece for one in look.next_tokens] == completer.tokenizer.pieces(ids.tolist())
    found = torch.tensor([one.probability for one in look.next_tokens])
    torch.testing.assert_close(found, probabilities, atol=1e-5, rtol=0)
    assert look.text == PROMPT


def test_what_was_written_is_looked_into_too(completer):
    look = completer.look(PROMPT, max_tokens=6)
    assert look.text == completer(PROMPT, max_tokens=6, beam=1).text
    maps = completer.look(look.text).attention.attention("decoder", words=False)
    recorded = look.attention.attention("decoder", words=False)
    assert recorded.rows == maps.rows
    torch.testing.assert_close(recorded.weights, maps.weights)


def test_interventions_change_the_continuation_and_what_comes_next(completer):
    changes = [Silenced("decoder", 0, 1), Flattened("decoder", 1)]
    look = completer.look(PROMPT, max_tokens=6, changes=changes)
    assert look.before.text == completer.look(PROMPT, max_tokens=6).text != look.text
    weights = look.attention.parts["decoder"].weights
    assert (weights[0, 1] == 0).all()
    torch.testing.assert_close(weights[1, :, 3, :4], torch.full((HEADS, 4), 0.25))
    after, before = (next_probabilities(completer, look.text, *some) for some in (changes, ()))
    expected = float(after.max()), float(before[after.argmax()])
    assert look.next_tokens[0][1:] == pytest.approx(expected, abs=1e-5)


def test_of_long_texts_the_last_tokens_are_kept_and_that_is_said(tmp_path, monkeypatch, completer):
    cut = completer.look("the cat sat on the mat. the dog sat")
    assert "sees 24 at once: it reads the last 24" in cut.notes[0]
    monkeypatch.setattr(completer_module, "MAX_KEPT_WEIGHTS", HEADS * 10 * 10)
    look = make_completer(tmp_path, context=300, positions="rotary").look("the cat sat " * 20)
    assert look.notes == (
        "only the attention among the last 10 of 240 tokens is recorded: "
        "all of it would be too much",
    )
    assert look.attention.parts["decoder"].weights.shape[-2:] == (10, 10)
    whole = look._last(4, pieces=True)
    assert whole.rows.pieces == ("s", "a", "t", "▁")
    assert whole.omitted == 236
    drawn = [text.get_text() for text in look.plot(pieces=True).findobj(matplotlib.text.Text)]
    assert any("only the last 10 of 240 words are drawn" in text for text in drawn)


def test_words_that_the_model_does_not_know_stand_as_they_were_written(completer):
    look = completer.look("the Zat sat Q")
    assert look.notes == ("unknown to the model: 2 tokens of the prompt",)
    assert look.attention.parts["decoder"].rows.words == ("the", "Zat", "sat", "Q")


def test_the_page_has_the_text_and_what_comes_next(completer):
    look = completer.look(PROMPT, changes=[Silenced("decoder", 0)])
    held = re.search(r'id="look">(.*?)</script>', look.page("run"), re.DOTALL)[1]
    document = json.loads(held)
    assert list(document["parts"]) == ["decoder"]
    assert document["kind"] == "text"
    assert document["given"] == document["target"]["pieces"]
    assert document["given_word_of"] == document["target"]["word_of"]
    layers = document["parts"]["decoder"]["layers"]
    lengths = [len(base64.b64decode(one["weights"])) for one in layers]
    assert lengths == [HEADS * len(PROMPT) ** 2] * LAYERS
    assert document["candidates"][0]["text"] == look.next_tokens[0].piece
    assert document["target"]["text"] == f"{PROMPT} → {look.next_tokens[0].name}"
    assert document["before"]["text"] == f"{PROMPT} → {look.before.next_tokens[0].name}"
    assert document["without"] == []


def test_an_empty_text_has_one_token_to_look_at(completer):
    assert completer.look("").attention.parts["decoder"].weights.shape == (LAYERS, HEADS, 1, 1)
    with pytest.raises(SettingsError, match="give a TEXT to look into"):
        completer.look([])


def test_a_model_without_attention_is_refused(tmp_path):
    recurrent = make_completer(tmp_path, {"family": "awd-lstm"})
    with pytest.raises(SettingsError, match=r"its model, awd-lstm, .* has no attention to look at"):
        recurrent.look("the cat")
