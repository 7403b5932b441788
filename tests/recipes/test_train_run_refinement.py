import itertools
import json
import shutil
from collections import Counter
from functools import partial

import pytest
import torch

from regard.batching.collate import collate
from regard.errors import SettingsError
from regard.models.build import build_model
from regard.models.translation.transformer_settings import TransformerSettings
from regard.pipelines.run_evaluation import finish_run
from regard.recipes import train_run
from regard.recipes.prepared_data import prepare
from regard.recipes.run_folder import RunFolder, load_run
from regard.recipes.train_run import (
    gleu_reward,
    refinement_training_settings,
    sample_translations,
    train,
)
from regard.text.build import load_tokenizers
from regard.text.special_tokens import BOS, EOS, PAD
from regard.training.checkpoints import last_progress, list_checkpoints
from regard.training.refinement import RefinementSettings, refinement_loss
from tiny import Quiet, tiny_recipe

CPU = torch.device("cpu")
FIRST = (
    "model={family: transformer, encoder_layers: 1, decoder_layers: 1, width: 8, heads: 2}",
    "training.steps=4",
    "training.validation={every: 3, sentences: 1, by: loss}",
    "training.average=1",
    "training.save_every=3",
    "decoding.beam.size=1",
)
SECOND = (
    "refinement={steps: 5, samples: 3, batch_tokens: 64, learning_rate: 0.01, validate_every: 2}"
)
FILES = ["model.safetensors", "refined/model.safetensors", "refined/weights/last.safetensors"]
SIZE, A = 6, 4
MODELS = {
    "rnn": {"family": "rnn", "width": 8, "embedding": 6},
    "luong": {"family": "luong", "width": 8, "embedding": 6},
    "convs2s": {"family": "convs2s", "width": 8},
    "gnmt": {"family": "gnmt", "width": 8, "embedding": 6, "alignment": 5},
    "moe": {"family": "moe", "width": 8, "alignment": 5, "expert_width": 7},
}


def trained(path, *overrides, stop=lambda: False):
    reporter, recipe = Quiet(), tiny_recipe(*FIRST, *overrides)
    train(recipe, RunFolder(path), device=CPU, reporter=reporter, stop_requested=stop)
    return reporter


def content(path):
    return {file: (path / file).read_bytes() for file in FILES}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A folder with the data and the vocabulary of all runs here."""
    path = tmp_path_factory.mktemp("prepared") / "run"
    recipe = tiny_recipe(*FIRST)
    RunFolder(path).save_recipe(recipe)
    prepare(recipe, RunFolder(path), print)
    return path


@pytest.fixture(scope="module")
def refined(prepared, tmp_path_factory):
    """The folder of a run that was never interrupted."""
    path = shutil.copytree(prepared, tmp_path_factory.mktemp("refined") / "run")
    trained(path, SECOND)
    return path


@pytest.fixture
def untrained(prepared, tmp_path):
    """A folder with data and vocabulary, in which nothing has been trained."""
    return shutil.copytree(prepared, tmp_path / "begun")


@pytest.fixture
def rising(monkeypatch):
    """Validations, each with a higher GLEU than the one before."""

    def build(recipe, inputs, *, max_tokens):
        values = iter(range(100))
        return lambda model: {"loss": 1.0, "bleu": 2.0, "gleu": float(next(values))}

    monkeypatch.setattr(train_run, "build_validation", build)


class KilledError(Exception):
    pass


class Stop:
    """`stop_requested` of a run, which is stopped or killed at the given call."""

    def __init__(self, calls, *, politely):
        self.left, self.politely = calls, politely

    def __call__(self):
        self.left -= 1
        if self.left <= 0 and not self.politely:
            raise KilledError
        return self.left <= 0


@pytest.mark.parametrize(
    ("question", "politely"),
    [(2, True), (5, True), (5, False), (6, False), (9, True), (9, False), (11, False)],
)
def test_whenever_it_ends_it_goes_on_to_the_same_weights(refined, untrained, question, politely):
    """After 2 steps, between the stages, after 1 and 4 steps of the second, and at its very end."""
    try:
        trained(untrained, SECOND, stop=Stop(question, politely=politely))
    except KilledError:
        assert not politely
    assert (untrained / "refined").exists() == (question > 5)
    assert (untrained / "refined/model.safetensors").exists() == (question > 5)
    assert (untrained / "refined/weights/last.safetensors").exists() == (question > 10)
    trained(untrained, SECOND)
    assert content(untrained) == content(refined)
    assert validated(untrained) == [0, 2, 4, 5]


def validated(path):
    lines = map(json.loads, (path / "refined/metrics.jsonl").read_text().splitlines())
    return [one["step"] for one in lines if one["kind"] == "valid"]


def test_every_checkpoint_of_it_damaged_it_begins_anew(refined, untrained):
    path = shutil.copytree(refined, untrained / "run")
    for damaged in list_checkpoints(path / "refined/checkpoints"):
        damaged.write_bytes(b"")
    trained(path, SECOND)
    assert content(path) == content(refined)


def test_a_finished_run_is_refined_later_as_it_would_have_been_at_once(refined, untrained):
    assert not [note for note in trained(untrained).notes if "refin" in note]
    likelihood = (untrained / "model.safetensors").read_bytes()
    assert "refining for 5 steps" in trained(untrained, SECOND).notes
    assert content(untrained) == content(refined)
    assert (untrained / "refined/weights/first.safetensors").read_bytes() == likelihood


def test_the_best_of_it_becomes_the_model_and_training_s_own_stay(untrained, rising):
    trained(untrained, SECOND)
    [(value, step)] = last_progress(untrained / "refined").best
    assert (value, step) == (3.0, 5)  # the fourth validation
    last = (untrained / "refined/weights/last.safetensors").read_bytes()
    assert (untrained / "model.safetensors").read_bytes() == last
    assert (untrained / "weights/last.safetensors").read_bytes() != last
    finish_run(RunFolder(untrained), last_progress(untrained), CPU)
    card = (untrained / "card.md").read_text()
    assert "- steps: 4 in " in card
    assert "- refinement by expected GLEU: 5 steps in " in card
    assert (
        "- weights after it: those of its step 5; validation GLEU 0.00 → 3.00, BLEU 2.00 → 2.00"
    ) in card


def test_if_none_of_it_is_better_the_model_stays_and_this_is_said(untrained):
    reporter = trained(untrained, SECOND, "refinement.learning_rate=1e-30")
    assert reporter.notes[-1] == (
        "refinement never raised the GLEU of the validation pairs: the model keeps the weights "
        "that training ended with"
    )
    first = (untrained / "refined/weights/first.safetensors").read_bytes()
    assert (untrained / "model.safetensors").read_bytes() == first
    finish_run(RunFolder(untrained), last_progress(untrained), CPU)
    assert (
        "- weights after it: the same, as no others had a higher GLEU on the validation pairs"
    ) in (untrained / "card.md").read_text()


def test_once_it_has_begun_training_is_over(refined, untrained):
    path = shutil.copytree(refined, untrained / "run")
    with pytest.raises(
        SettingsError,
        match=r"run: its refinement has begun with the weights that training ended with, and "
        r"training cannot change any more; delete .*run/refined to train on",
    ):
        trained(path, SECOND, "training.steps=9")
    shutil.rmtree(path / "refined")
    trained(path, SECOND, "training.steps=5")
    assert last_progress(path).step == 5
    assert last_progress(path / "refined").step == 5


def test_it_can_go_on_and_be_taken_back(refined, untrained):
    path = shutil.copytree(refined, untrained / "run")
    trained(path, SECOND, "refinement.steps=7")
    assert validated(path) == [0, 2, 4, 5, 6, 7]
    first = (path / "refined/weights/first.safetensors").read_bytes()
    trained(path, "refinement=null")
    assert (path / "model.safetensors").read_bytes() == first


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_every_family_can_be_refined(prepared, tmp_path, model):
    path = shutil.copytree(prepared, tmp_path / "run")
    trained(path, SECOND, f"model={json.dumps(model)}", "training.steps=1", "refinement.steps=2")
    assert validated(path) == [0, 2]
    load_run(path, device=CPU)


def small_model(**given):
    torch.manual_seed(5)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "width": 8, "heads": 2, "feed_forward": 12}
    settings = TransformerSettings(**sizes, embeddings="separate", dropout=0.0, **given)
    return build_model(settings, SIZE, SIZE, joint=False).eval()


def drawn(model, samples=400, ratio=1.0):
    batch = collate([[A, 5], [5]], [[A, 5], [A]])
    settings = RefinementSettings(samples=samples, max_length_ratio=ratio)
    return sample_translations(settings, model, model.encode(batch.inputs), batch.given.mask.sum(1))


def test_answers_are_drawn_as_often_as_they_are_likely():
    model = small_model()
    torch.manual_seed(1)
    samples = drawn(model, samples=1000)[1]
    assert len(samples) == 1000
    counts = Counter((one.tokens, one.finished) for one in samples)
    assert sum(not finished for _, finished in counts) > 1
    memory = model.encode(collate([[5]], [[]]).inputs)
    for (tokens, finished), count in counts.items():
        state, likely = model.start(memory), 1.0
        for last, token in itertools.pairwise((BOS, *tokens, *[EOS] * finished)):
            logits, state = model.step(torch.tensor([[last]]), state)
            logits[..., [PAD, BOS]] = float("-inf")
            likely *= logits[0, 0].softmax(-1)[token].item()
        spread = (likely * (1 - likely) / 1000) ** 0.5
        assert abs(count / 1000 - likely) < 4 * spread + 1e-9


def test_no_answer_is_longer_than_allowed():
    for ratio, longest in ((1.0, [3, 2]), (1.5, [4, 3])):  # of 3 and 2 tokens, EOS counted
        lengths = [
            max(len(one.tokens) + one.finished for one in row)
            for row in drawn(small_model(), ratio=ratio)
        ]
        assert lengths == longest
    near = small_model(positions="learned", max_positions=3)
    assert [max(len(one.tokens) for one in row) for row in drawn(near, ratio=1.5)] == [3, 3]


def test_draws_follow_torch_s_generator():
    model = small_model()
    torch.manual_seed(7)
    one, other = drawn(model, samples=9), drawn(model, samples=9)
    torch.manual_seed(7)
    assert drawn(model, samples=9) == one != other


def test_what_was_drawn_in_low_precision_leaves_no_weights_behind():
    """The loss must not reuse weights that autocast has cached in a search without gradients."""
    model, batch = small_model(), collate([[A, 5], [5]], [[A, 5], [A]])
    draw = partial(sample_translations, RefinementSettings(samples=5))
    torch.manual_seed(1)
    with torch.autocast("cpu", torch.bfloat16):
        loss = refinement_loss(
            model,
            batch,
            draw=draw,
            reward=lambda reference, some: [*range(len(some))],
            likelihood=1,
        )
    loss.loss.backward()
    assert all(parameter.grad.count_nonzero() for parameter in model.parameters())


def test_the_reward_is_gleu_of_words(prepared):
    target = load_tokenizers(prepared).target
    reference, cut, other = target.encode(["She visits Africa.", "She visits", "He sleeps."])
    assert gleu_reward(target, "13a")(reference, [reference, cut, other, []]) == [1, 0.3, 0.1, 0]


def test_what_the_loop_is_told():
    recipe = tiny_recipe(
        "training.accumulate=4",
        "training.moving_average=0.9",
        "training.optimizer.clip_norm=2",
        "training.validation.patience=1",
        SECOND,
    )
    told = refinement_training_settings(recipe.training, recipe.refinement)
    assert (told.steps, told.batch_tokens, told.accumulate, told.average) == (5, 64, 1, 1)
    assert (told.optimizer.learning_rate, told.optimizer.clip_norm) == (0.01, 2)
    assert (told.schedule.shape, told.schedule.warmup) == ("constant", 50)
    assert told.moving_average == 0.9
    assert (told.validation.every, told.validation.by, told.validation.patience) == (
        2,
        "gleu",
        None,
    )
    assert told.validation.sentences == recipe.training.validation.sentences
    assert told.save_every == told.log_every == 2
