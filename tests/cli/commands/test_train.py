import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from bench.process_tree import listening_addresses
from regard.cli.main import command_app
from regard.errors import CorpusError, RunError, SettingsError
from regard.recipes.recipe_files import dump_recipe, load_recipe
from regard.recipes.run_folder import RunFolder
from regard.tasks.translation.pipeline import load
from regard.training.checkpoints import list_checkpoints
from tiny import tiny_recipe

app = command_app("train")

FEW = ("--set", "training.steps=3", "--device", "cpu")
MODEL = "{family: rnnsearch, width: 8, embedding: 8, alignment: 8, readout: 8}"
TORCHRUN = {
    "RANK": "1",
    "WORLD_SIZE": "2",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "1",
}
SMALL = ("--set", f"model={MODEL}", "--set", "text.source.size=300")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(dump_recipe(tiny_recipe()))


def run(*args, given=None):
    return CliRunner().invoke(
        app, args, catch_exceptions=False, input=given, env={"COLUMNS": "150"}
    )


@pytest.fixture
def begun():
    """The folder of a run of three steps."""
    assert run("mine.yaml", *FEW, "--out", "begun").exit_code == 0
    return RunFolder(Path("begun"))


def test_a_recipe_becomes_a_model(tmp_path):
    shown = run("mine.yaml", *FEW)
    assert shown.exit_code == 0
    folder = tmp_path / "runs" / "tiny"
    assert load(folder, device="cpu")("Elle danse.").text is not None
    saved = load_recipe(folder / "recipe.yaml")
    recipe_to_train = tiny_recipe("training.steps=3", "evaluation.tokenize=13a")
    assert saved == recipe_to_train.with_choices_of(saved)
    for part in ("20 held-out sentences (test)", "BLEU", "exact", "nrefs:1|"):
        assert part in shown.stdout
    for part in ("reading and cleaning travel", "pairs ", "vocabulary ", "parameters ", "step  "):
        assert part in shown.stderr
    assert "the model is in runs/tiny; its card: runs/tiny/card.md" in shown.stderr


def test_json(tmp_path):
    shown = run("mine.yaml", *FEW, "--out", "there", "--json")
    said = json.loads(shown.stdout)
    assert said["run"] == "there"
    assert said["step"] == 3
    assert said["scores"] == json.loads((tmp_path / "there" / "scores.json").read_text())


def test_files_of_ones_own(tmp_path):
    numbers = [f"{a} {b}" for a in "abcdefghij" for b in "klmnopqrst"]
    (tmp_path / "a.en").write_text("".join(f"say {line}\n" for line in numbers))
    (tmp_path / "a.de").write_text("".join(f"sage {line} du\n" for line in numbers))
    files = ("--source", "a.en", "--target", "a.de", "--languages", "en-de")
    shown = run(*files, *FEW, *SMALL, "--out", "own")
    assert shown.exit_code == 0
    recipe = RunFolder(Path("own")).load_recipe()
    assert recipe.corpus.languages == ("en", "de")
    assert not recipe.auto
    assert (recipe.training.batch_tokens, recipe.training.schedule.warmup) == (1024, 1)
    assert "chosen      " in shown.stderr
    assert "# own: en → de" in (tmp_path / "own" / "card.md").read_text()
    table = "".join(f"say {line}\tsage {line} du\n" for line in numbers)
    piped = run(
        *("mine.yaml", "--data", "-", "--set", "corpus.train.format=tsv", *FEW, *SMALL),
        *("--out", "piped"),
        given=table,
    )
    assert piped.exit_code == 0
    assert RunFolder(Path("piped")).load_recipe().training.batch_tokens == 512


def test_a_run_is_not_overwritten(begun):
    with pytest.raises(
        RunError,
        match="begun: already holds a run; continue it with --resume, or train in another folder "
        "with --out",
    ):
        run("mine.yaml", *FEW, "--out", "begun")


def test_a_run_whose_settings_its_model_refused_is_begun_again():
    impossible = "training.fine_tuning.frozen_parts=[none]"
    with pytest.raises(SettingsError, match="no weights of the model are in none"):
        run("mine.yaml", *FEW, "--set", impossible, "--out", "again")
    assert not (Path("again") / "metrics.jsonl").exists()
    assert run("mine.yaml", *FEW, "--out", "again").exit_code == 0


def test_a_training_that_is_running_is_told_of(begun):
    with begun.locked(), pytest.raises(RunError, match=r"begun: in use by .* a training or a comp"):
        run("mine.yaml", *FEW, "--out", "begun")


def test_a_finished_run_can_go_on(begun):
    shown = run("--resume", "--out", "begun", "--set", "training.steps=5", "--json")
    assert json.loads(shown.stdout)["step"] == 5
    assert begun.load_recipe().training.steps == 5
    again = run("--resume", "--out", "begun", "--json")
    assert json.loads(again.stdout)["step"] == 5


def test_a_finished_run_can_be_refined(begun):
    plain = json.loads(run("--resume", "--out", "begun", "--json").stdout)
    assert plain["refinement_step"] == 0
    few = ("steps=2", "samples=2", "batch_tokens=64", "validate_every=1")
    shown = run("--resume", "--out", "begun", *(f"--set=refinement.{one}" for one in few))
    assert shown.exit_code == 0
    assert "refinement  2 steps; step 0 is the end of training" in shown.stderr
    assert "- refinement by expected GLEU: 2 steps in " in begun.card.read_text()
    again = json.loads(run("--resume", "--out", "begun", "--json").stdout)
    assert (again["step"], again["refinement_step"]) == (3, 2)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.optimizer.learning_rate=1", "its training ended after 3 steps; other"),
        ("training.steps=2", "3 steps of its training are done, more than 2"),
    ],
)
def test_a_setting_without_effect_is_not_written(begun, setting, message):
    before = begun.recipe.read_bytes()
    with pytest.raises(SettingsError, match=message):
        run("--resume", "--out", "begun", "--set", setting)
    assert begun.recipe.read_bytes() == before
    assert begun.finished()


def test_a_run_is_found_by_its_recipe(tmp_path):
    (tmp_path / "mine.yaml").write_text(dump_recipe(tiny_recipe("name=other")))
    run("mine.yaml", *FEW)
    for name in ("other", "mine.yaml"):
        shown = run(name, "--resume", "--json", "--set", "training.steps=4")
        assert json.loads(shown.stdout)["run"] == "runs/other"
    with pytest.raises(SettingsError, match="with the run's own recipe, other: drop travel"):
        run("travel", "--resume", "--out", "runs/other")


def test_what_a_run_is_cannot_change(begun):
    with pytest.raises(
        SettingsError, match="started with another model, which can no longer change"
    ):
        run("--resume", "--out", "begun", "--set", "model.width=16")


@pytest.mark.parametrize(
    ("args", "kind", "message"),
    [
        ((), SettingsError, r"nothing to train on: give a recipe \(`regard recipes` lists them\)"),
        (
            ("--valid", "v.tsv"),
            SettingsError,
            "--valid, --test, --languages and --skip-bad need --data",
        ),
        (("travle",), SettingsError, "did you mean 'travel'"),
        (("mine.yaml", "--set", "trainnig.steps=5"), SettingsError, "did you mean 'training'"),
        (("--source", "a.en"), SettingsError, "--source is given once and --target not at all"),
        (("--data", "none.tsv"), CorpusError, r"none\.tsv: no such file"),
        (("--data", "a.txt"), CorpusError, "its name ends in none of"),
        (("mine.yaml", "--device", "nonsense"), RunError, "cannot be used here"),
        (("--resume",), SettingsError, "--resume needs the run's folder: --out DIR"),
        (("--resume", "--out", "none"), RunError, "none: no such folder"),
        (("--resume", "nowhere"), RunError, "runs/nowhere: no such folder"),
        (("--resume", "--out", "."), RunError, r"not a run: it has no recipe\.yaml"),
        (
            ("--resume", "--out", "x", "--data", "a.tsv"),
            SettingsError,
            "--resume continues with the run's own data: drop the files",
        ),
    ],
)
def test_mistakes(args, kind, message):
    with pytest.raises(kind, match=message):
        run(*args)


def test_a_failed_run_may_be_begun_again(tmp_path):
    with pytest.raises(CorpusError, match="none of the 300 training pairs"):
        run("mine.yaml", *FEW, "--out", "there", "--set", "training.max_tokens=1")
    shown = run("--resume", "--out", "there", *FEW, "--set", "training.max_tokens=50", "--json")
    assert json.loads(shown.stdout)["step"] == 3
    plain = yaml.safe_load((tmp_path / "there" / "recipe.yaml").read_text())
    assert plain["training"]["max_tokens"] == 50


@pytest.mark.parametrize(
    ("given", "around", "said"),
    [
        (
            ("--devices", "9", "--device", "cuda"),
            {},
            "has no GPU; leave out --device, or give --device cpu",
        ),
        (("--devices", "2", "--device", "cuda:1"), {}, "its own device; give cuda or cpu"),
        (("--max-restarts", "2"), {}, "--max-restarts is for --devices"),
        ((), {"RANK": "1"}, "has RANK but not WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT"),
        ((), TORCHRUN | {"RANK": "2"}, "RANK=2 in the environment must be less than WORLD_SIZE=2"),
        ((), TORCHRUN | {"WORLD_SIZE": "two"}, "WORLD_SIZE=two in the environment: not a number"),
        (("--devices", "3"), TORCHRUN, "--devices 3: torchrun has started 2 processes"),
        (("--device", "cuda"), TORCHRUN, "has no GPU: there are none; leave out --device, or"),
    ],
)
def test_several_devices_that_cannot_be(given, around, said, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    for name, value in around.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        run("mine.yaml", *given, *SMALL)
    assert said in str(refused.value)


def test_a_single_process_is_started_again_too(monkeypatch):
    started = []
    monkeypatch.setattr(
        "regard.cli.commands.train.start_processes", lambda *given: started.append(given[:3]) or 3
    )
    given = ("mine.yaml", "--devices", "1", "--max-restarts", "2", "--device", "cpu", *SMALL)
    assert run(*given).exit_code == 3
    assert started == [(1, "cpu", 2)]


@pytest.mark.slow
def test_a_process_that_is_killed_is_started_again(tmp_path):
    """With --devices, as users start it; a second training in the folder is refused meanwhile, and
    no other machine can reach a process.
    """
    command = [sys.executable, "-m", "regard", "train", "mine.yaml", "--device", "cpu"]
    settings = ("training.steps=40", "training.save_every=2", "training.validation.every=40")
    given = [part for one in settings for part in ("--set", one)]
    devices = ("--devices", "2", "--max-restarts", "1", "--out", "run")
    checkpoints = tmp_path / "run" / "checkpoints"
    with subprocess.Popen([*command, *given, *devices], stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 300
        while not list_checkpoints(checkpoints):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(RunError, match="in use by another process"):
            run("mine.yaml", *FEW, "--out", "run")
        assert listening_addresses(process.pid) == {"127.0.0.1"}
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(children[1]), signal.SIGKILL)
        said = process.communicate(timeout=300)[1].decode()
    assert process.returncode == 0, said
    assert "the process of rank 1 was ended by SIGKILL; all are restarted" in said
    assert "error" not in said
    assert (tmp_path / "run" / "card.md").exists()
