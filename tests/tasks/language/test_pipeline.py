"""Prompts continued by a language model, alone and together, drawn and searched."""

from itertools import pairwise

import pytest
import torch

from regard.decoding.settings import DecodingSettings, SamplingSettings
from regard.errors import SettingsError
from regard.models.language.gpt import Gpt, GptSettings
from regard.recipes.open_run import Run
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder
from regard.tasks.language.pipeline import Completer, EncodedPrompt
from regard.tasks.language.task import LanguageModelling
from regard.text.build import train_tokenizer
from regard.text.special_tokens import PAD
from regard.types import Padded

TEXT = "the cat sat on the mat.\nthe dog sat on the cat.\n"
CONTEXT = 24


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return make_task(tmp_path_factory.mktemp("run"), documents="text")


def make_task(folder, *, documents):
    raw = {
        "task": "language-model",
        "name": "tiny",
        "corpus": {"train": "none.txt", "documents": documents},
        "text": {"kind": "characters", "size": 0},
        "model": {"family": "gpt", "layers": 1, "width": 8, "heads": 2, "context": CONTEXT},
    }
    task = LanguageModelling(make_recipe(raw, where="tiny"), folder)
    task.tokenizer = train_tokenizer(TEXT.splitlines(keepends=True), task.recipe.text)
    return task


def make_completer(task, **changed):
    torch.manual_seed(3)
    settings = {"layers": 2, "width": 16, "heads": 4, "context": CONTEXT, "dropout": 0.0}
    model = Gpt(GptSettings(**(settings | changed)), task.tokenizer.size).eval()
    with torch.no_grad():  # unlike continuations for unlike prompts
        for parameter in model.parameters():
            parameter.normal_(std=0.8 if parameter.ndim > 1 else 0.3)
    search = DecodingSettings(sampling=SamplingSettings(seed=5))
    recipe = task.recipe.model_copy(update={"decoding": search})
    return Completer(Run(recipe, task, model, RunFolder(task.folder)))


PROMPTS = ["the cat", "", "s", "the dog sat on"]


@pytest.mark.parametrize("options", [{}, {"n_best": 3}, {"beam": 3, "n_best": 2}, {"beam": 1}])
@pytest.mark.parametrize("changed", [{}, {"positions": "rotary", "kv_heads": 2}])
def test_prompts_of_unlike_length_together_equal_each_alone(task, options, changed):
    completer = make_completer(task, **changed)
    together = completer.complete(PROMPTS, max_tokens=7, **options)
    assert [one.prompt for one in together] == PROMPTS
    for number, prompt in enumerate(PROMPTS):
        if "beam" in options:  # draws depend on the place of a prompt
            alone = completer(prompt, max_tokens=7, **options)
            assert alone.continuations[0].text == together[number].continuations[0].text
        assert len(together[number].continuations) == options.get("n_best", 1)
        assert together[number].text.startswith(prompt)


def test_the_log_probability_is_that_of_the_text_under_teacher_forcing(task):
    completer = make_completer(task)
    found = completer("the cat", max_tokens=5, beam=2).continuations[0]
    ids = task.tokenizer.encode(["the cat" + found.text])[0]
    first = len(task.tokenizer.encode(["the cat"])[0])
    given = torch.tensor([ids[:-1]])
    empty = completer.model.encode(pad_nothing())
    features = completer.model.decode(padded(given), empty).features
    logits = completer.model.logits(features)[0]
    logits[:, :3] = float("-inf")  # PAD, UNK and BOS are never said
    log_probs = logits.log_softmax(-1)[first - 1 :].gather(1, torch.tensor(ids[first:])[:, None])
    assert found.log_probability == pytest.approx(log_probs.sum().item(), abs=1e-4)


def pad_nothing():
    nothing = torch.zeros(1, 0, dtype=torch.long)
    return padded(nothing)


def padded(ids):
    return Padded(ids, torch.ones_like(ids, dtype=torch.bool))


def test_the_same_seed_draws_the_same_text_and_another_one_another(task):
    completer = make_completer(task)
    texts = [completer("the", max_tokens=9, sampling={"seed": seed}).text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_options_count_beside_settings(task):
    completer = make_completer(task)
    found = completer("the", settings=completer.settings, max_tokens=3, beam=3, n_best=3)
    assert found.continuations == completer("the", max_tokens=3, beam=3, n_best=3).continuations
    assert len(found.continuations) == 3


def test_a_prompt_beyond_the_context_is_cut_and_told_of(task):
    completer = make_completer(task)
    long = "the cat sat on the mat. " * 3
    found = completer(long, max_tokens=6, beam=1)
    assert f"{len(long)} tokens and the model sees {CONTEXT} at once" in found.notes[0]
    kept = CONTEXT - 6
    assert found.continuations[0] == completer(long[-kept:], max_tokens=6, beam=1).continuations[0]


def test_a_continuation_ends_where_the_context_does(task):
    completer = make_completer(task)
    found = completer("the cat sat", max_tokens=500, beam=1).continuations[0]
    assert found.num_tokens <= CONTEXT - len("the cat sat") + 1


def test_a_text_beyond_the_positions_of_a_model_that_goes_on_is_told_of(task):
    completer = make_completer(task, positions="rotary")
    note = "tokens; the model was trained on 24 at once"
    assert completer("the cat", max_tokens=9, beam=1).notes == ()
    for prompt, most in (("the cat sat on the mat. the", 1), ("the cat", 40)):
        found = completer(prompt, max_tokens=most, beam=1)
        assert found.notes == (
            f"a text of {len(prompt) + found.continuations[0].num_tokens} {note}",
        )
    assert completer.look("the cat sat on the mat. the").notes == (f"a text of 27 {note}",)


def test_a_prompt_may_end_in_the_token_of_padding(task, monkeypatch):
    completer = make_completer(task)
    monkeypatch.setattr(completer, "_encode", lambda *_: EncodedPrompt([5, 6], PAD, ()))
    found = completer("the", max_tokens=4, beam=1)
    assert (found.continuations[0].num_tokens, found.notes) == (4, ())


def test_text_without_documents_begins_behind_a_line_end_and_other_text_behind_an_end(tmp_path):
    for documents, piece in (("text", "\n"), ("line", "")):
        task = make_task(tmp_path, documents=documents)
        completer = make_completer(task)
        ids, first, _ = completer._encode("", 5)
        assert ids == []
        assert task.tokenizer.decode([first]) == piece


def test_what_is_written_so_far_is_told_as_it_grows(task):
    completer, seen = make_completer(task), []
    found = completer("the", max_tokens=6, on_text=lambda number, text: seen.append(text))
    assert seen[-1] == found.continuations[0].text
    assert all(later.startswith(earlier) for earlier, later in pairwise(seen))
    assert len(set(seen)) == 6


def test_unknown_letters_and_wrong_limits_are_told_of(task):
    completer = make_completer(task)
    assert "model: 2 tokens of the prompt" in completer("ÄÖ cat", max_tokens=2).notes[0]
    with pytest.raises(SettingsError, match="max_tokens: must be at least 1, got 0"):
        completer("the", max_tokens=0)
    with pytest.raises(TypeError, match="prompts must be a list"):
        completer.complete("the cat")
