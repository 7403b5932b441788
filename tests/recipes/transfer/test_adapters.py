"""Low-rank adapters: trained for a run, small, chosen when it is loaded, merged."""

import json
import shutil

import pytest
import torch
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.errors import RunError, SettingsError
from regard.recipes import paths
from regard.recipes.finish_run import finish_run
from regard.recipes.open_run import open_run
from regard.recipes.paths import ADAPTER_FILE
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder
from regard.recipes.train_run import train
from regard.recipes.transfer.adapters import Adapter, AdapterInfo
from regard.recipes.transfer.start_run import RunStart
from regard.tasks.translation.pipeline import load
from regard.training.checkpoints import load_weights
from tiny import MODELS, RAW, Quiet

CPU = torch.device("cpu")
TRAINING = RAW["training"] | {
    "steps": 12,
    "average": 2,
    "save_every": 4,
    "moving_average": 0.5,
    "optimizer": {"learning_rate": 3e-2},
    "fine_tuning": {"lora": {"rank": 2}},
}
INFO = AdapterInfo(base="0" * 64, rank=2, run="runs/legal", trained_on="laws")


def adapter_recipe(run, *overrides):
    corpus = {"name": "travel", "generated": {"train": 120, "valid": 20, "test": 10}}
    start = {"run": str(run), "adapter": "legal"}
    raw = {**RAW, "corpus": corpus, "model": MODELS["transformer"], "training": TRAINING}
    return make_recipe({**raw, "start": start}, overrides, where="test")


def train_in(path, recipe, stop_after=None):
    steps = iter(range(1, 1000))
    stop = lambda: stop_after is not None and next(steps) >= stop_after  # noqa: E731
    return train(recipe, RunFolder(path), device=CPU, reporter=Quiet(), stop_requested=stop)


@pytest.fixture(scope="module")
def runs(tiny_run, tmp_path_factory):
    """A run and one that was trained as an adapter for it."""
    folder = tmp_path_factory.mktemp("adapters")
    base = shutil.copytree(tiny_run, folder / "base")
    progress = train_in(folder / "legal", adapter_recipe(base))
    finish_run(RunFolder(folder / "legal"), progress, CPU)
    return folder


def test_an_adapter_of_a_model_of_another_size_is_refused(runs, tmp_path):
    recipe = adapter_recipe(runs / "base", "model.feed_forward=12")
    with pytest.raises(SettingsError, match=r"--adapter legal: .* differs in encoder\.0\.feed"):
        train_in(tmp_path / "other", recipe)


def test_the_base_and_its_adapter_are_the_merged_run(runs):
    base, tuned = (open_run(runs / x, device=CPU) for x in ("base", "legal"))
    adapted = open_run(runs / "base", device=CPU, adapter="legal")
    changed = 0
    for (name, weight), old in zip(
        adapted.model.state_dict().items(), base.model.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(weight, tuned.model.state_dict()[name], rtol=0, atol=1e-6)
        changed += not torch.equal(weight, old)
    assert changed == 3 * 4 + 2 * 6 + 1  # all linear layers of both stacks, and the embeddings


def test_linear_layers_alone_are_updated_where_the_settings_say_so(runs, tmp_path):
    alone = {"training.fine_tuning.lora.embeddings": False, "start.adapter": None}
    train_in(tmp_path / "linear", adapter_recipe(runs / "base").with_values(alone))
    old = load_weights(runs / "base" / "model.safetensors")
    new = load_weights(tmp_path / "linear" / "model.safetensors")
    changed = [name for name in old if not torch.equal(old[name], new[name])]
    assert len(changed) == 3 * 4 + 2 * 6
    assert all(name.endswith("weight") for name in changed)


def test_an_adapter_is_small_and_says_where_it_came_from(runs):
    file = runs / "base" / "adapters" / "legal.safetensors"
    adapter = Adapter.load(file)
    assert file.read_bytes() == (runs / "legal" / "adapter.safetensors").read_bytes()
    assert file.stat().st_size < 0.35 * (runs / "base" / "model.safetensors").stat().st_size
    assert adapter.info.rank == 2
    assert adapter.info.run == str(runs / "legal")
    card = (runs / "legal" / "card.md").read_text()
    assert f"low-rank updates of rank 2 were trained: {adapter.numbers:,} weights" in card
    assert f"SHA-256 `{adapter.info.base}`" in card


def test_the_packaged_run_is_given_no_adapter(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "PACKAGED_RUN", runs / "base")
    folder = RunFolder(shutil.copytree(runs / "legal", tmp_path / "legal"))
    given, notes = runs / "base" / "adapters" / "legal.safetensors", []
    before = given.stat()
    RunStart(folder.load_recipe(), folder).save_adapter("laws", notes.append)
    assert notes[-1].endswith(f"use it with --adapter {folder.path / ADAPTER_FILE}")
    assert given.stat() == before


def test_a_translator_takes_an_adapter_by_name_run_or_file(runs):
    texts = ["Jane visite l'Afrique en septembre."]
    wanted = load(runs / "legal", device="cpu", engine="native").translate(texts)[0]
    plain = load(runs / "base", device="cpu", engine="native").translate(texts)[0]
    assert plain.candidates[0].score != pytest.approx(wanted.candidates[0].score, abs=1e-3)
    for name in ("legal", str(runs / "legal"), str(runs / "legal" / "adapter.safetensors")):
        found = load(runs / "base", device="cpu", adapter=name).translate(texts)[0]
        assert found.text == wanted.text
        assert found.candidates[0].score == pytest.approx(wanted.candidates[0].score, abs=1e-4)


def test_the_commands_translate_and_merge(runs, tmp_path):
    text = tmp_path / "text.fr"
    text.write_text("Jane visite l'Afrique en septembre.\n")
    base, file = str(runs / "base"), str(tmp_path / "merged.safetensors")
    arguments = ["--device", "cpu", "--engine", "native"]
    merged = CliRunner().invoke(
        command_app("average"), [base, "--adapter", "legal", "--output", file]
    )
    assert merged.exit_code == 0, merged.output
    weights = load_weights(runs / "legal" / "model.safetensors")
    for name, tensor in load_weights(tmp_path / "merged.safetensors").items():
        torch.testing.assert_close(tensor, weights[name], rtol=0, atol=1e-6)
    translate = command_app("translate")
    wanted = CliRunner().invoke(translate, [str(runs / "legal"), str(text), *arguments])
    for more in (["--adapter", "legal"], ["--weights", file]):
        found = CliRunner().invoke(translate, [base, str(text), *arguments, *more])
        assert found.exit_code == 0, found.output
        assert found.stdout == wanted.stdout


def test_other_commands_take_an_adapter_too(runs, tmp_path):
    source, reference = tmp_path / "text.fr", tmp_path / "text.en"
    source.write_text("Jane visite l'Afrique en septembre.\n")
    reference.write_text("Jane visits Africa in September.\n")
    files = ["--source", str(source), "--target", str(reference)]
    held_out = ["--source", str(source), "--reference", str(reference), "--engine", "native"]
    for command, arguments in (
        ("evaluate", [*held_out, "--json"]),
        ("look", [source.read_text().strip(), "--json"]),
        ("align", [*files, "--json"]),
    ):
        found = [
            CliRunner().invoke(command_app(command), [str(runs / run), *arguments, *more])
            for run, more in (("base", ["--adapter", "legal"]), ("legal", []), ("base", []))
        ]
        assert all(one.exit_code == 0 for one in found), (command, found[0].output)
        if command == "evaluate":
            adapted, merged, plain = (json.loads(one.stdout)["perplexity"]["loss"] for one in found)
            assert adapted == pytest.approx(merged, abs=1e-5)
            assert abs(plain - merged) > 1e-3


def test_stopped_and_resumed_equals_unbroken(runs, tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    base = shutil.copytree(runs / "base", tmp_path / "base")
    train_in(tmp_path / "whole", adapter_recipe(base))
    train_in(tmp_path / "broken", adapter_recipe(base), stop_after=7)
    assert not (tmp_path / "broken" / "adapter.safetensors").exists()
    train_in(tmp_path / "broken", RunFolder(tmp_path / "broken").load_recipe())
    torch.set_num_threads(threads)
    whole, broken = (tmp_path / x / "model.safetensors" for x in ("whole", "broken"))
    assert whole.read_bytes() == broken.read_bytes()


def test_an_adapter_of_other_weights_is_refused(runs, tiny_run, tmp_path):
    other = shutil.copytree(runs / "legal", tmp_path / "other")
    with pytest.raises(RunError, match="made for other weights than"):
        open_run(other, device=CPU, adapter=str(runs / "legal"))
    with pytest.raises(RunError, match="no adapter laws; there are legal: train one with"):
        open_run(runs / "base", device=CPU, adapter="laws")
    with pytest.raises(
        RunError, match="damaged, or not an adapter: it does not describe an adapter"
    ):
        open_run(runs / "base", device=CPU, adapter=str(tiny_run / "model.safetensors"))


def test_what_does_not_fit_is_refused():
    base = {"a.weight": torch.zeros(4, 5)}
    ups, downs = {"a.weight.up": torch.ones(4, 2)}, {"a.weight.down": torch.ones(2, 5)}
    assert Adapter(INFO, ups | downs).merge(base)["a.weight"].eq(2).all()
    for wrong in ({"a.weight.up": torch.ones(3, 2)}, {"a.weight.up": torch.ones(4, 3)}, {}):
        with pytest.raises(RunError, match=r"a\.weight does not fit the model"):
            Adapter(INFO, wrong | downs).merge(base)
    torch.manual_seed(1)
    with pytest.raises(RunError, match="its change has a higher rank than 2"):
        Adapter.between(base, {"a.weight": torch.randn(4, 5)}, INFO)


@pytest.mark.parametrize(
    ("raw", "wrong"),
    [
        ({"start": None}, "lora updates the weights of a run: name it with --from RUN"),
        ({"start": {"run": "x", "vocabulary": "own"}}, "own needs all weights trained"),
        ({"refinement": {}}, "refinement trains all weights"),
        ({"start": {"run": "x", "adapter": "../x"}}, "adapter"),
    ],
)
def test_settings_that_contradict_adapters_are_refused(raw, wrong):
    given = {**RAW, "model": MODELS["transformer"], "training": TRAINING, "start": {"run": "x"}}
    with pytest.raises(SettingsError, match=wrong):
        make_recipe({**given, **raw}, where="test")
