import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from regard import manifest
from regard.atomic_io import atomic_file
from regard.errors import (
    DamagedError,
    RunError,
    RunWarning,
    SettingsError,
    StorageError,
    TextError,
)
from regard.recipes.open_run import open_run
from regard.recipes.process_memory import peak_rss
from regard.recipes.run_folder import RunFolder, describe_misfit, pick_device
from regard.recipes.verification import verify
from regard.tasks.translation.task import new_model
from regard.training.checkpoints import load_weights, save_weights
from tiny import tiny_recipe

CPU = torch.device("cpu")
HOLDER = """
import sys
from pathlib import Path
from regard.recipes.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def copied(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / "run")


def test_a_second_process_is_refused_and_the_lock_dies_with_the_first(tmp_path):
    path = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"locked\n"
        with (
            pytest.raises(
                RunError,
                match=rf"{path}: in use by another process \(number {holder.pid}\): a training "
                "or a comparison is running there; wait for it, stop it, or use another folder",
            ),
            RunFolder(path).locked(),
        ):
            pass
        assert RunFolder(path).in_use()
        holder.kill()
    assert not RunFolder(path).in_use()
    with RunFolder(path).locked():
        assert (path / ".lock").read_text() == str(os.getpid())


def test_a_run_saved_with_an_old_name_of_a_setting_is_read(tmp_path):
    model = {"family": "moe", "experts": {"chosen": 3}}
    recipe = {"name": "old", "corpus": {"name": "copy"}, "model": model}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    with pytest.warns(RunWarning, match="manifest"):
        assert RunFolder(tmp_path).load_recipe().model.experts.top_k == 3


def test_a_folder_that_was_never_trained_in_is_not_in_use(tmp_path):
    assert not RunFolder(tmp_path).in_use()
    assert not (tmp_path / ".lock").exists()


def test_a_lock_is_given_back(tmp_path):
    folder = RunFolder(tmp_path / "deep" / "run")
    with folder.locked(), pytest.raises(RunError, match="in use"), folder.locked():
        pass
    with folder.locked():
        assert folder.path.is_dir()


def test_what_a_killed_process_was_writing_is_swept_up(tmp_path):
    folder = RunFolder(tmp_path)
    folder.create()
    (tmp_path / "weights").mkdir()
    (tmp_path / "mine").mkdir()
    leftovers = [tmp_path / ".a.json.123.part", tmp_path / "weights" / ".b.safetensors.5.part"]
    others = [tmp_path / "kept.part", tmp_path / ".kept.part", tmp_path / "mine" / ".b.5.part"]
    for file in (*leftovers, *others):
        file.touch()
    with atomic_file(tmp_path / "f"), folder.locked():  # who still writes is not disturbed
        assert not any(file.exists() for file in leftovers)
    assert all(file.exists() for file in (*others, tmp_path / "f"))


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path):
    files = {
        "data/train.source.txt": b"my corpus",
        "manifest.json": b'{"name": "my page"}',
        ".card.md.7.part": b"mine",
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    folder = RunFolder(tmp_path)
    with (
        pytest.raises(RunError, match=r": not empty, and not a run: it holds data and 1"),
        folder.locked(),
    ):
        pass
    with pytest.raises(RunError, match="name a folder that is new or empty with --out"):
        folder.save_recipe(tiny_recipe())
    found = {str(p.relative_to(tmp_path)): p.read_bytes() for p in tmp_path.rglob("*.*")}
    assert found == files


def test_a_folder_whose_run_was_killed_at_once_is_used_again(tmp_path):
    (tmp_path / ".lock").write_text("123")
    (tmp_path / ".manifest.json.123.part").touch()
    with RunFolder(tmp_path).locked():
        (tmp_path / "half").touch()
    with RunFolder(tmp_path).locked():  # it was ours, though nothing has been read
        assert verify(tmp_path).files == 1


def test_a_run_from_before_manifests_is_noted_once_and_given_one(copied):
    (copied / "manifest.json").unlink()
    with pytest.warns(RunWarning, match="has no manifest.json.*regard verify .* --accept"):
        open_run(copied, device=CPU)
    with RunFolder(copied).locked():
        assert verify(copied).whole
    open_run(copied, device=CPU)


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(StorageError, match=r"file/run: cannot be written: Not a directory"),
        RunFolder(tmp_path / "file" / "run").locked(),
    ):
        pass


def test_a_disk_that_is_full_from_the_start(tmp_path, monkeypatch):
    def fill(folder):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(manifest, "create_manifest", fill)
    with pytest.raises(StorageError, match="run: the disk is full"):
        RunFolder(tmp_path / "run").create()


@pytest.mark.parametrize(
    "put",
    [
        lambda lock, other: lock.symlink_to(other),
        lambda lock, other: lock.symlink_to(other.parent / "new"),
        lambda lock, other: lock.hardlink_to(other),
        lambda lock, other: os.mkfifo(lock),
        lambda lock, other: lock.mkdir(),
    ],
    ids=["link", "link to nothing", "second name", "pipe", "folder"],
)
def test_a_lock_that_is_no_file_of_its_own_is_not_written_to(tmp_path, put):
    (tmp_path / "run").mkdir()
    (tmp_path / "other").write_text("kept")
    put(tmp_path / "run" / ".lock", tmp_path / "other")
    folder = RunFolder(tmp_path / "run")
    with pytest.raises(StorageError, match=r"\.lock: cannot be written: "), folder.locked():
        pass
    assert not folder.in_use()
    assert (tmp_path / "other").read_text() == "kept"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", ["weights", "refined/checkpoints", "data"])
def test_nothing_is_written_through_a_linked_folder(tmp_path, name):
    place, elsewhere = tmp_path / "run" / name, tmp_path / "elsewhere"
    RunFolder(tmp_path / "run").create()
    place.parent.mkdir(parents=True, exist_ok=True)
    elsewhere.mkdir()
    place.symlink_to(elsewhere)
    with (
        pytest.raises(StorageError, match=rf"{name}: a link to .*elsewhere, and nothing is"),
        RunFolder(tmp_path / "run").locked(),
    ):
        pass
    (tmp_path / "runs").symlink_to(elsewhere)
    with RunFolder(tmp_path / "runs").locked():  # the folder itself may be one
        assert (elsewhere / ".lock").exists()


def test_the_recipe_is_kept(tmp_path):
    folder, recipe = RunFolder(tmp_path / "run"), tiny_recipe()
    assert not folder.exists()
    folder.save_recipe(recipe)
    assert not folder.exists()  # nothing was read yet: another try may begin here
    folder.data.mkdir()
    (folder.data / "prepared.json").touch()
    assert folder.exists()
    folder.require_new()  # nothing was trained: another try may begin here all the same
    assert folder.load_recipe() == recipe
    assert folder.load_recipe(["training.steps=3"]).training.steps == 3


@pytest.mark.parametrize("file", ["metrics.jsonl", "model.safetensors", "checkpoints/step-*"])
def test_a_run_with_weights_or_metrics_is_not_begun_again(file, copied, tmp_path):
    found = next(copied.glob(file))
    copy = tmp_path / "copy" / found.relative_to(copied)
    copy.parent.mkdir(parents=True)
    shutil.copy(found, copy)
    with pytest.raises(RunError, match="already holds a run"):
        RunFolder(tmp_path / "copy").require_new()


def test_a_run_has_begun_when_it_has_a_checkpoint(copied, tmp_path):
    assert RunFolder(copied).has_checkpoints()
    shutil.rmtree(copied / "data")
    assert RunFolder(copied).exists()  # though its data are gone
    assert not RunFolder(tmp_path / "none").has_checkpoints()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "run: no such folder"),
        (lambda path: path.mkdir(), r"run: not a run: it has no recipe\.yaml"),
        (lambda path: path.touch(), "run: a file; a run is a folder$"),
    ],
)
def test_folders_that_are_no_runs(tmp_path, make, message):
    make(tmp_path / "run")
    with pytest.raises(RunError, match=message):
        open_run(tmp_path / "run", device=CPU)


@pytest.mark.parametrize(
    ("beside", "step"),
    [
        ("recipe.yaml", "give the folder that it is in: 'a b'"),
        ("config.json", "import the folder that it is in: regard import 'a b' --out 'runs/a b'"),
        ("x.gguf", "import the folder that it is in: regard import 'a b' --out 'runs/a b'"),
    ],
)
def test_a_file_is_answered_with_what_its_folder_is_for(beside, step, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a b").mkdir()
    (Path("a b") / beside).touch()
    with pytest.raises(RunError) as caught:
        open_run(Path("a b") / beside, device=CPU)
    assert str(caught.value) == f"a b/{beside}: a file; {step}"


def test_an_export_is_called_one(tmp_path):
    (tmp_path / "export.json").touch()
    hint = f"it is an export, which can only translate: regard translate {tmp_path}$"
    with pytest.raises(RunError, match=hint):
        open_run(tmp_path, device=CPU)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("a 2's", """regard import 'a 2'"'"'s' --out 'runs/a 2'"'"'s'"""),
        ("org/gpt2", "hf download org/gpt2 --local-dir gpt2 && regard import gpt2 --out runs/gpt2"),
        ("runs/gpt2", None),
        ("no/such/run", None),
    ],
)
def test_the_next_step_to_a_model_of_another_toolkit_is_named(name, steps, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a 2's").mkdir()
    (tmp_path / "a 2's" / "config.json").touch()
    with pytest.raises(RunError) as caught:
        open_run(Path(name), device=CPU)
    if steps is None:
        assert str(caught.value) == f"{name}: no such folder"
    else:
        assert str(caught.value).endswith(f" first: {steps}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name: [", r"run/recipe\.yaml: cannot be read as YAML"),
        (b"\xff\xfe", r"run/recipe\.yaml: not UTF-8"),
        (b"name: x\ncorpus: {name: copy}\nsteps: 3\n", r"run/recipe\.yaml: steps: unknown key"),
    ],
)
def test_a_damaged_recipe(copied, content, message):
    (copied / "recipe.yaml").write_bytes(content)
    with pytest.raises(SettingsError, match=message):
        open_run(copied, device=CPU)


def test_a_run_is_loaded_to_be_used(tiny_run):
    run = open_run(str(tiny_run), device=CPU)
    assert not run.model.training
    assert run.recipe == tiny_recipe("evaluation.tokenize=13a").with_choices_of(run.recipe)
    assert run.tokenizers.source is run.tokenizers.target
    saved = load_weights(tiny_run / "model.safetensors")
    assert all(torch.equal(saved[name], tensor) for name, tensor in run.model.state_dict().items())


@pytest.mark.parametrize("name", ["best", "last", "average"])
def test_other_weights_by_name(tiny_run, name):
    run = open_run(tiny_run, device=CPU, weights=name)
    saved = load_weights(tiny_run / "weights" / f"{name}.safetensors")
    assert all(torch.equal(saved[key], tensor) for key, tensor in run.model.state_dict().items())


@pytest.mark.parametrize(("precision", "times"), [("bfloat16", 1), ("int8", 0), ("float32", 0)])
def test_products_of_weights_in_bfloat16_are_not_remembered(
    tiny_run, monkeypatch, precision, times
):
    asked = []
    monkeypatch.setattr("regard.recipes.open_run.limit_onednn_caches", lambda: asked.append(True))
    open_run(tiny_run, device=CPU, precision=precision)
    assert len(asked) == times


def test_weights_in_a_file(tiny_run):
    file = sorted((tiny_run / "weights").glob("step-*"))[0]
    run = open_run(tiny_run, device=CPU, weights=str(file))
    saved = load_weights(file)
    assert all(torch.equal(saved[key], tensor) for key, tensor in run.model.state_dict().items())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "model",
            r"run: holds no weights model\.safetensors yet: its training has not reached a "
            r"validation; continue with: regard train --resume --out .*run",
        ),
        ("last", r"holds no weights last\.safetensors yet: its training has not reached its end"),
        ("lsat", "lsat: no such file of weights; there are model, best, last, average"),
    ],
)
def test_weights_that_are_not_there(copied, name, message):
    (copied / "model.safetensors").unlink()
    (copied / "weights" / "last.safetensors").unlink()
    with pytest.raises(RunError, match=message):
        open_run(copied, device=CPU, weights=name)


def test_damaged_weights(copied):
    file = copied / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(DamagedError, match=r"model\.safetensors: not what was written there: it"):
        open_run(copied, device=CPU)
    RunFolder(copied).rebuild_manifest()
    with pytest.raises(RunError, match=r"model\.safetensors: damaged or not a safetensors file"):
        open_run(copied, device=CPU)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("model", {"heads": 2}, "model"),
        ("model", {"norm": "post"}, "model"),
        ("text", {"joint": False}, "text"),
        ("training", {"max_tokens": 7}, r"training\.max_tokens"),
    ],
)
def test_settings_that_belong_to_the_weights_are_not_edited(copied, key, value, named):
    raw = yaml.safe_load((copied / "recipe.yaml").read_text(encoding="utf-8"))
    (copied / "recipe.yaml").write_text(yaml.safe_dump({**raw, key: {**raw[key], **value}}))
    with pytest.raises(DamagedError, match=rf"recipe\.yaml: {named}: not what the run's weights"):
        open_run(copied, device=CPU)


def test_weights_that_are_no_numbers(copied):
    weights = load_weights(copied / "model.safetensors")
    next(iter(weights.values())).view(-1)[3] = torch.nan
    save_weights(copied / "model.safetensors", weights)
    with pytest.raises(RunError, match="weights that are not finite numbers"):
        open_run(copied, device=CPU)


def test_a_pickle_is_not_loaded(copied):
    torch.save({"x": torch.zeros(2)}, copied / "model.safetensors")
    RunFolder(copied).rebuild_manifest()
    with pytest.raises(RunError, match="damaged or not a safetensors file"):
        open_run(copied, device=CPU)


def test_weights_of_another_model(copied, other_run):
    shutil.copy(other_run / "model.safetensors", copied)
    RunFolder(copied).rebuild_manifest()
    with pytest.raises(RunError, match=r"does not fit the model of .*recipe\.yaml") as error:
        open_run(copied, device=CPU)
    assert "state_dict" not in str(error.value)
    assert "\n" not in str(error.value)


def test_tensors_that_do_not_fit_are_named():
    expected = {name: torch.zeros(2, 3) for name in ("a", "b", "c")}
    given = {"a": torch.zeros(2, 4), "d": torch.zeros(1), "e": torch.zeros(1)}
    assert describe_misfit(expected, given) == (
        "missing: b and 1 other; unknown: d and 1 other; of another shape: a (2 × 4, the model "
        "has 2 × 3)"
    )
    assert describe_misfit(expected, expected) == ""


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("width", 65_536, r"model\.safetensors: does not fit .*: its model would have more than"),
        ("width", 10**9, r"recipe\.yaml: model\.width: must be at most 65536"),
        ("encoder_layers", 10**8, r"recipe\.yaml: model\.encoder_layers: must be at most 1000"),
    ],
)
def test_a_model_that_is_too_large_is_never_made(copied, name, value, message):
    recipe = yaml.safe_load((copied / "recipe.yaml").read_text())
    recipe["model"][name] = value
    (copied / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    RunFolder(copied).rebuild_manifest()
    before = peak_rss()
    with pytest.raises((RunError, SettingsError), match=message):
        open_run(copied, device=CPU)
    assert peak_rss() - before < 200 << 20


def test_weights_of_another_size(copied):
    weights = load_weights(copied / "model.safetensors")
    save_weights(
        copied / "model.safetensors", {name: tensor[..., :1] for name, tensor in weights.items()}
    )
    with pytest.raises(RunError, match="does not fit the model"):
        open_run(copied, device=CPU)


def test_a_run_without_its_tokenizer(copied):
    (copied / "tokenizer.model").unlink()
    with pytest.raises(TextError, match=r"tokenizer\.model: missing"):
        open_run(copied, device=CPU)


def test_the_seed_decides_the_first_weights(tiny_run):
    run = open_run(tiny_run, device=CPU)

    def first(seed):
        torch.manual_seed(seed)
        return torch.cat([p.flatten() for p in new_model(run.recipe, run.tokenizers).parameters()])

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))


def test_devices():
    assert pick_device("cpu") == CPU
    assert pick_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["nonsense", "cuda:99", ""])
def test_devices_that_cannot_be_used(name):
    with pytest.raises(
        RunError, match=rf"device '{name}' cannot be used here: .+; try cpu or auto"
    ):
        pick_device(name)


def test_a_run_of_old_is_used_as_it_was(copied):
    """Its recipe has neither `beam.normalise` nor `rules.excluded`."""
    raw = yaml.safe_load((copied / "recipe.yaml").read_text(encoding="utf-8"))
    del raw["decoding"]["beam"]["normalise"], raw["decoding"]["rules"]["excluded"]
    raw["decoding"]["beam"]["stop"] = "safe"
    (copied / "recipe.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    with pytest.warns(RunWarning, match=r"recipe\.yaml: decoding: edited since the run wrote it"):
        decoding = RunFolder(copied).load_recipe().decoding
    assert (decoding.beam.normalise, decoding.beam.stop) == ("gnmt", "safe")
    assert decoding.rules.excluded == "lost"
    raw["decoding"]["sampling"] = {"temperature": 0.5}
    (copied / "recipe.yaml").write_text(yaml.safe_dump(raw), encoding="utf-8")
    RunFolder(copied).rebuild_manifest()
    assert RunFolder(copied).load_recipe().decoding.sampling.temperature == 0.5


def test_a_new_run_is_used_as_all_engines_can(tiny_run):
    decoding = RunFolder(tiny_run).load_recipe().decoding
    assert (decoding.beam.normalise, decoding.beam.stop) == ("power", "size")
    assert decoding.rules.excluded == "spread"
