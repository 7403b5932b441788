"""Translators that begin with the weights of others, on another domain."""

import json
import re
import shutil

import pytest
import torch
from typer.testing import CliRunner

from regard.cli.commands.train import _load_new
from regard.cli.main import command_app
from regard.cli.options.corpus_options import corpus_from_options, mix_from_options
from regard.errors import SettingsError
from regard.recipes.recipe_files import load_recipe, make_recipe
from regard.recipes.run_folder import RunFolder
from regard.recipes.train_run import train
from regard.recipes.transfer.start_run import RunStart, resolve_start
from regard.text.build import load_tokenizers
from regard.text.vocabulary_extension import piece_parts
from regard.training.checkpoints import load_weights
from tiny import MODELS, RAW, Quiet
from variants import V_SOURCE, V_TARGET, VARIANTS, tiny

CPU = torch.device("cpu")
TRAINING = RAW["training"] | {"steps": 12, "average": 1, "save_every": 4}
WORDS = ["tower", "river", "bridge", "garden", "street", "castle"]


@pytest.fixture(autouse=True)
def one_thread():
    """With more threads, sums are taken in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def domain(tmp_path):
    """Pairs of another domain."""
    lines = [f"the {a} and the {b}\tla {b} et la {a}\n" for a in WORDS for b in WORDS for _ in "12"]
    file = tmp_path / "domain.tsv"
    file.write_text("".join(f"{n} {line}" for n, line in enumerate(lines)))
    return file


def tuned_recipe(run, file, *overrides, **start):
    corpus = {"train": {"data": str(file)}, "languages": ["en", "fr"]}
    raw = {**RAW, "corpus": corpus, "model": MODELS["transformer"], "training": TRAINING}
    return make_recipe({**raw, "start": {"run": str(run), **start}}, overrides, where="test")


def train_in(path, recipe, stop_after=None):
    steps = iter(range(1, 1000))
    stop = lambda: stop_after is not None and next(steps) >= stop_after  # noqa: E731
    return train(recipe, RunFolder(path), device=CPU, reporter=Quiet(), stop_requested=stop)


def test_a_translator_begins_with_vocabulary_and_weights_of_another(tiny_run, domain, tmp_path):
    train_in(tmp_path / "tuned", tuned_recipe(tiny_run, domain))
    tuned, given = (load_tokenizers(x).source for x in (tmp_path / "tuned", tiny_run))
    assert tuned.fingerprint() == given.fingerprint()
    begun = load_weights(tmp_path / "tuned" / "weights" / "start.safetensors")
    weights = load_weights(tiny_run / "model.safetensors")
    assert all(torch.equal(begun[name], weights[name]) for name in weights)


def test_the_card_hands_on_where_weights_were_imported_from(tiny_run, domain, tmp_path):
    given = shutil.copytree(tiny_run, tmp_path / "given")
    report = {"source": "opus-mt", "format": "transformers marian", "licence": "apache-2.0"}
    (given / "exchange.json").write_text(json.dumps(report))
    for run, start in (("tuned", given), ("again", tmp_path / "tuned")):
        train_in(tmp_path / run, tuned_recipe(start, domain, "training.steps=1"))
        folder = RunFolder(tmp_path / run)
        lines = "\n".join(RunStart(folder.load_recipe(), folder).card_lines())
        assert "imported from `opus-mt` (transformers marian); licence: apache-2.0" in lines


def test_kept_pieces_keep_their_vectors_in_a_vocabulary_of_its_own(tiny_run, domain, tmp_path):
    recipe = tuned_recipe(tiny_run, domain, "text.source.size=300", vocabulary="own")
    train_in(tmp_path / "tuned", recipe)
    own, given = (load_tokenizers(x).source for x in (tmp_path / "tuned", tiny_run))
    pieces, others = (list(one.pieces(range(one.size))) for one in (own, given))
    begun = load_weights(tmp_path / "tuned" / "weights" / "start.safetensors")["embeddings.source"]
    weights = load_weights(tiny_run / "model.safetensors")["embeddings.source"]
    shared = [one for one in pieces if pieces.count(one) == others.count(one) == 1]
    assert len(others) != len(pieces) > len(shared) > 10
    for piece in shared:
        assert torch.equal(begun[pieces.index(piece)], weights[others.index(piece)])
    folder = RunFolder(tmp_path / "tuned")
    said = re.search(rf"(\d+) of {own.size} rows", "\n".join(RunStart(recipe, folder).card_lines()))
    assert said is not None
    assert len(shared) <= int(said.group(1)) < own.size  # pieces of bytes are named twice


def test_an_extended_vocabulary_begins_with_the_old_one(tiny_run, domain, tmp_path):
    recipe = tuned_recipe(tiny_run, domain, "start.added_pieces=9", vocabulary="extended")
    train_in(tmp_path / "tuned", recipe)
    own, given = (load_tokenizers(x).source for x in (tmp_path / "tuned", tiny_run))
    assert own.row_names()[: given.size] == given.row_names()
    assert own.size == given.size + 9
    begun = load_weights(tmp_path / "tuned" / "weights" / "start.safetensors")["embeddings.source"]
    weights = load_weights(tiny_run / "model.safetensors")["embeddings.source"]
    assert torch.equal(begun[: given.size], weights)
    parts = piece_parts(own.row_names(), given.row_names())
    assert [*parts] == [*range(given.size, own.size)]
    for row, some in parts.items():
        assert b"".join(given.row_names()[i] for i in some) == own.row_names()[row]
        torch.testing.assert_close(begun[row], weights[list(some)].mean(0))


@pytest.mark.parametrize(("stop", "vocabulary"), [(1, "extended"), (7, "run")])
def test_stopped_and_resumed_equals_unbroken(tiny_run, domain, tmp_path, stop, vocabulary):
    start = shutil.copytree(tiny_run, tmp_path / "start")
    recipe = tuned_recipe(start, domain, vocabulary=vocabulary)
    train_in(tmp_path / "whole", recipe)
    train_in(tmp_path / "broken", recipe, stop_after=stop)
    shutil.rmtree(start)
    if stop == 1:  # killed before its first checkpoint
        shutil.rmtree(tmp_path / "broken" / "checkpoints")
    train_in(tmp_path / "broken", RunFolder(tmp_path / "broken").load_recipe())
    whole, broken = (tmp_path / x / "model.safetensors" for x in ("whole", "broken"))
    assert whole.read_bytes() == broken.read_bytes()


def test_files_alone_are_trained_on_with_the_model_of_the_run(tiny_run, domain, tmp_path):
    out = tmp_path / "tuned"
    arguments = ["--data", str(domain), "--languages", "en-fr", "--from", str(tiny_run)]
    steps = ["--set", "training.steps=4", "--device", "cpu", "--out", str(out)]
    done = CliRunner().invoke(command_app("train"), [*arguments, *steps])
    assert done.exit_code == 0, done.output
    assert "begun with" in done.output
    given = RunFolder(tiny_run).load_recipe()
    recipe = RunFolder(out).load_recipe()
    assert (recipe.model, recipe.text) == (given.model, given.text)
    assert f"`{recipe.start.weights}`" in (out / "card.md").read_text()


def test_files_alone_are_trained_on_with_the_search_of_the_run(tiny_run):
    corpus = corpus_from_options(data=["law.tsv"], languages="en-fr")
    given = RunFolder(tiny_run).load_recipe().decoding
    own = load_recipe("own").decoding
    found = _load_new(None, corpus, tiny_run, ["decoding.n_best=2"]).decoding
    assert own.beam != given.beam
    assert found == given.model_copy(update={"n_best": 2})
    assert _load_new("own", corpus, tiny_run, []).decoding == own


@pytest.mark.parametrize(("overrides", "expected"), [([], 63), (["training.max_tokens=100"], 100)])
def test_pairs_are_as_long_as_the_positions_of_the_run_unless_said(tiny_run, overrides, expected):
    corpus = corpus_from_options(data=["law.tsv"], languages="en-fr")
    given = (
        RunFolder(tiny_run)
        .load_recipe()
        .with_values({"model.positions": "learned", "model.max_positions": 64})
    )
    start = [f"start.run={tiny_run}"]
    recipe = _load_new(None, corpus, tiny_run, [*start, *overrides]).begun_with(given)
    assert recipe.training.max_tokens == expected


def test_the_model_is_that_of_the_run_but_for_given_sizes_and_dropout(tiny_run):
    corpus = corpus_from_options(data=["law.tsv"], languages="en-fr")
    given = RunFolder(tiny_run).load_recipe()
    overrides = [f"start.run={tiny_run}", "model.dropout=0.07", "model.encoder_layers=7"]
    found = _load_new("own", corpus, tiny_run, overrides).begun_with(given).model
    assert found == given.model.model_copy(update={"dropout": 0.07, "encoder_layers": 7})


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.norm=post", "has the value 'pre' for model.norm; leave it out, or name a recipe"),
        (
            "model={family: transformer, preset: auto, window: 3}",
            "has the value None for model.window; leave it out, or name a",
        ),
        ("text.source.size=77", r"has the value \d+ for text.source.size; .* --vocabulary own"),
    ],
)
def test_a_setting_that_the_run_decides_cannot_be_given(tiny_run, domain, override, message):
    given = RunFolder(tiny_run).load_recipe()
    assert given.model.norm == "pre"
    raw = {**RAW, "model": {"family": "transformer", "preset": "auto"}}
    raw |= {"corpus": {"train": {"data": str(domain)}}, "start": {"run": str(tiny_run)}}
    with pytest.raises(SettingsError, match=rf"^--set .*: has no effect: .* {message}"):
        resolve_start(make_recipe(raw, [override], where="test"), [override])
    open_ones = ["model.preset=auto", "model.width=16", "training.steps=7", "model.window=null"]
    assert resolve_start(make_recipe(raw, open_ones, where="test"), open_ones).model.width == 16


def test_a_run_of_another_task_is_refused(tiny_run, domain, tmp_path):
    path = shutil.copytree(tiny_run, tmp_path / "other")
    recipe = tuned_recipe(path, domain)
    other = RunFolder(path).load_recipe().model_copy(update={"task": "forecast"})
    with pytest.raises(SettingsError, match="can start from one of translation or chat, not of"):
        recipe.begun_with(other)


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_every_tensor_with_a_row_for_each_token_is_named(name):
    model, _, _ = tiny(name)
    kinds, sizes = model.named_rows(), {"source tokens": V_SOURCE, "target tokens": V_TARGET}
    shared = VARIANTS[name].model_dump().get("embeddings") == "shared"
    for parameter, tensor in model.state_dict().items():
        if len(tensor) in sizes.values():
            assert shared or sizes[kinds[parameter]] == len(tensor)


def test_a_share_of_the_old_pairs_is_mixed_into_training_alone(tiny_run, domain, tmp_path):
    out = tmp_path / "tuned"
    arguments = ["--data", str(domain), "--languages", "en-fr", "--from", str(tiny_run)]
    arguments += ["--mix", f"{tiny_run}=0.3", "--set", "training.steps=2"]
    arguments += ["--set", "corpus.cleaning.max_ratio=null"]
    done = CliRunner().invoke(
        command_app("train"), [*arguments, "--device", "cpu", "--out", str(out)]
    )
    assert done.exit_code == 0, done.output
    assert "mixing in" in done.output
    old = {*(tiny_run / "data" / "train.source.txt").read_text().splitlines()}
    lines = {
        split: (out / "data" / f"{split}.source.txt").read_text().splitlines()
        for split in ("train", "valid", "test")
    }
    share = sum(line in old for line in lines["train"]) / len(lines["train"])
    assert share == pytest.approx(0.3, abs=0.05)
    assert not {*lines["valid"], *lines["test"]} & old
    assert len({*lines["train"]} & old) > 0.4 * len(old)  # the new ones are repeated instead
    assert "Mixed in: 30%" in (out / "card.md").read_text()
    assert not list((out / "data").glob("*mixed*"))


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ("old.tsv", "expected a share between 0 and 1 after the =, such as old.tsv=0.3"),
        ("old.tsv=1.5", "expected a share between 0 and 1 after the =, such as old.tsv=0.3"),
        ("{}=0.3", "is a folder without data/train.source.txt"),
    ],
)
def test_shares_that_cannot_be_mixed_in_are_said(tmp_path, given, wrong):
    with pytest.raises(SettingsError, match=wrong):
        mix_from_options([given.format(tmp_path)])


def test_shares_leave_some_room():
    files = [{"data": "a.tsv", "share": 0.6}, {"data": "b.tsv", "share": 0.4}]
    with pytest.raises(SettingsError, match="the shares must leave some of the training set"):
        make_recipe({**RAW, "corpus": {"train": {"data": "c.tsv"}, "mix": files}}, where="test")
