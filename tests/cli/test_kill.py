"""A run that is stopped or killed, and then resumed, ends like one that was not."""

import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest
import torch
from typer.testing import CliRunner

from caption_runs import caption_recipe
from forecasts import forecast_recipe
from forks import Fork
from languages import RECIPES as LANGUAGE_RECIPES
from languages import language_recipe
from regard.cli.main import command_app
from regard.errors import RunError, StorageError
from regard.recipes.recipe_files import dump_recipe
from regard.training.checkpoints import list_checkpoints
from tiny import tiny_recipe

app = command_app("train")

pytestmark = pytest.mark.slow

STEPS = 80
RECIPE = tiny_recipe(
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "corpus.generated={train: 200, valid: 20, test: 10}",
    "text.source.sampling=0.2",
    f"training.steps={STEPS}",
    "training.batch_tokens=256",
    "training.moving_average=0.9",
    "training.save_every=4",
    "training.log_every=5",
    "training.validation={every: 20, sentences: 3, by: loss}",
)
"""With all that draws random numbers: dropout, the order of pairs, sampled subwords."""
FILES = [
    "model.safetensors",
    *(f"weights/{name}.safetensors" for name in ("best", "last", "average")),
]
PATIENCE = 300
"""Seconds to wait for something before a test fails, on a busy machine too."""


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """With more threads, sums are taken in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(dump_recipe(RECIPE))
    return str(path)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory, one_thread):
    """The folder of a run that was never interrupted."""
    folder = tmp_path_factory.mktemp("unbroken")
    (folder / "tiny.yaml").write_text(dump_recipe(RECIPE))
    assert run_here(folder / "tiny.yaml", "--out", folder / "run").exit_code == 0
    return folder / "run"


def start(*args):
    """The command in a process of its own, as users start it."""
    return subprocess.Popen(
        [sys.executable, "-m", "regard", "train", *map(str, args), "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def fork(folder, *args, **options):
    """The same, begun at once."""
    given = ("train", *args, "--out", folder, "--device", "cpu")
    return Fork(folder.parent / "log", *given, **options)


def kill(folder, args, happened, *, pause):
    """Let a run go on and kill it a little after something has happened."""
    with fork(folder, *args) as process:
        wait_for(process, happened)
        time.sleep(random.uniform(0, pause))
    assert process.wait(PATIENCE) == -signal.SIGKILL, f"the kill came too late: {process.said()}"


def run_here(*args):
    """The command in this process, which takes no time to start."""
    args = [*map(str, args), "--device", "cpu"]
    return CliRunner().invoke(app, args, catch_exceptions=False)


def wait_for(process, happened):
    """Wait until something has happened in a running process."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert process.poll() is None, f"it ended too soon: {said(process)}"
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)


def said(process):
    return process.said() if isinstance(process, Fork) else process.communicate()[1]


def new_checkpoint(folder):
    """Whether there is a checkpoint that was not there at first."""
    before = {path.name for path in list_checkpoints(folder / "checkpoints")}
    return lambda: {path.name for path in list_checkpoints(folder / "checkpoints")} - before


def assert_same(folder, unbroken):
    for file in FILES:
        assert (folder / file).read_bytes() == (unbroken / file).read_bytes(), file
    assert numbers(folder) == numbers(unbroken)
    assert not list(folder.rglob("*.part"))


def numbers(folder):
    """Validations, and the steps of other metrics: means over steps that a stop came between."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line if line["kind"] == "valid" else line["step"] for line in lines]


def test_killed_ten_times_it_ends_as_if_it_had_not_been(recipe, unbroken, tmp_path):
    folder = tmp_path / "run"
    preparing = [folder / name for name in (".lock", "data/valid.source.txt", "tokenizer.json")]
    ending = folder / "weights" / "last.safetensors"
    moments = [
        *(file.exists for file in preparing),
        *itertools.repeat(None, 6),  # at some new checkpoint
        ending.exists,
    ]
    for moment in moments:
        begun = (folder / "recipe.yaml").exists()
        args = ("--resume",) if begun else (recipe,)
        kill(folder, args, moment or new_checkpoint(folder), pause=0.01 if moment else 0.03)
    assert run_here("--resume", "--out", folder).exit_code == 0
    assert_same(folder, unbroken)


def test_killed_again_and_again_while_it_resumes_it_ends_as_if_it_had_not_been(
    recipe, unbroken, tmp_path
):
    """At file after file that it opens or changes, until a resume reaches the next checkpoint."""
    folder = tmp_path / "run"
    kill(folder, (recipe,), new_checkpoint(folder), pause=0.03)
    resumed, kills = new_checkpoint(folder), 0
    while not resumed():
        kills += 1
        with fork(folder, "--resume", dies_at=(folder, 3 * 2**kills)) as process:
            assert process.wait(PATIENCE) == -signal.SIGKILL, process.said()
    assert kills > 2
    assert run_here("--resume", "--out", folder).exit_code == 0
    assert_same(folder, unbroken)


def test_a_forecaster_killed_five_times_ends_as_if_it_had_not_been(tmp_path):
    file, whole, folder = tmp_path / "tiny.yaml", tmp_path / "whole", tmp_path / "run"
    often = ("training.save_every=4", "training.moving_average=0.9")
    file.write_text(dump_recipe(forecast_recipe("training.steps=80", *often)))
    assert run_here(file, "--out", whole).exit_code == 0
    preparing = [folder / name for name in (".lock", "data/series.csv")]
    for moment in (*(one.exists for one in preparing), *itertools.repeat(None, 3)):
        args = ("--resume",) if (folder / "recipe.yaml").exists() else (file,)
        kill(folder, args, moment or new_checkpoint(folder), pause=0.01 if moment else 0.03)
    assert run_here("--resume", "--out", folder).exit_code == 0
    assert_same(folder, whole)


def test_a_captioner_killed_ends_as_if_it_had_not_been(tmp_path, monkeypatch):
    """With hard attention, which draws regions and keeps a baseline."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    file, whole, folder = tmp_path / "tiny.yaml", tmp_path / "whole", tmp_path / "run"
    often = ("training.save_every=4", "training.moving_average=0.9")
    recipe = caption_recipe("training.steps=40", "model.attention=hard", *often)
    file.write_text(dump_recipe(recipe))
    assert run_here(file, "--out", whole).exit_code == 0
    for moment in ((folder / "data/train.jsonl").exists, None, None):
        args = ("--resume",) if (folder / "recipe.yaml").exists() else (file,)
        kill(folder, args, moment or new_checkpoint(folder), pause=0.01 if moment else 0.03)
    assert run_here("--resume", "--out", folder).exit_code == 0
    assert_same(folder, whole)


def test_killed_while_it_is_refined(recipe, tmp_path):
    few = ("training.steps=12", "refinement={steps: 24, samples: 3, batch_tokens: 64}")
    settings = [f"--set={one}" for one in (*few, "refinement.validate_every=3")]
    whole, folder = tmp_path / "whole", tmp_path / "run"
    assert run_here(recipe, "--out", whole, *settings).exit_code == 0
    begun = folder / "refined" / "weights" / "first.safetensors"
    for moment in (begun.exists, *itertools.repeat(None, 3)):
        again = ("--resume",) if folder.exists() else (recipe, *settings)
        kill(folder, again, moment or new_checkpoint(folder / "refined"), pause=0.03)
    assert run_here("--resume", "--out", folder).exit_code == 0
    assert_same(folder, whole)
    assert_same(folder / "refined", whole / "refined")


def test_asked_to_stop_it_saves_and_says_how_to_go_on(recipe, unbroken, tmp_path):
    folder = tmp_path / "run"
    with start(recipe, "--out", folder) as process:
        wait_for(process, new_checkpoint(folder))
        with pytest.raises(RunError, match=rf"in use by another process \(number {process.pid}\)"):
            run_here("--resume", "--out", folder)
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + signal.SIGTERM
    step = int(list_checkpoints(folder / "checkpoints")[0].name.split("-")[1])
    assert 0 < step < STEPS
    assert said.splitlines()[-1] == (
        f"stopped at step {step}; all is saved. Continue with: regard train --resume --out {folder}"
    )
    assert run_here("--resume", "--out", folder).exit_code == 0
    assert_same(folder, unbroken)


def test_ctrl_c_and_a_damaged_checkpoint(recipe, unbroken, tmp_path):
    folder = tmp_path / "run"
    with fork(folder, recipe) as process:
        wait_for(process, lambda: len(list_checkpoints(folder / "checkpoints")) > 1)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 128 + signal.SIGINT
    assert "all is saved" in process.said()
    newest = list_checkpoints(folder / "checkpoints")[0]
    newest.write_bytes(newest.read_bytes()[:-100])
    shown = run_here("--resume", "--out", folder)
    assert f"{newest} is damaged; the checkpoint before it is used" in shown.stderr
    assert_same(folder, unbroken)


def test_every_checkpoint_damaged_it_begins_anew(recipe, unbroken, tmp_path):
    folder = tmp_path / "run"
    stop = ("--set", "training.steps=12")
    assert run_here(recipe, "--out", folder, *stop).exit_code == 0
    for path in list_checkpoints(folder / "checkpoints"):
        path.write_bytes(b"")
    run_here("--resume", "--out", folder, "--set", f"training.steps={STEPS}")
    assert_same(folder, unbroken)


def test_a_file_too_large_for_the_system(recipe, unbroken, tmp_path):
    folder = tmp_path / "run"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, limits[1]))  # a checkpoint has 1 MB
    try:
        with pytest.raises(StorageError, match=r"step-.*: cannot be written: File too large"):
            run_here(recipe, "--out", folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not list(folder.rglob("*.part"))
    run_here("--resume", "--out", folder)
    assert_same(folder, unbroken)


@pytest.fixture
def small_disk(tmp_path):
    """A folder on a disk of 2 MB, and a way to make it larger."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(*options):
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", disk]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    if os.geteuid() or not mount("size=2m"):
        pytest.skip("needs the right to mount a small disk")
    yield disk, lambda: mount("remount", "size=50m")
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk(recipe, unbroken, small_disk):
    disk, enlarge = small_disk
    folder = disk / "run"
    with pytest.raises(
        StorageError,
        match=r"the disk is full; what was written before is intact\. Make room and try again",
    ):
        run_here(recipe, "--out", folder)
    assert enlarge()
    assert run_here("--resume", "--out", folder).exit_code == 0
    assert_same(folder, unbroken)


@pytest.mark.parametrize("name", LANGUAGE_RECIPES)
def test_a_language_model_killed_twice_ends_as_if_it_had_not_been(name, tmp_path):
    often = {"steps": 40, "save_every": 4, "validation": {"every": 10}}
    raw = LANGUAGE_RECIPES[name]["training"] | often
    path = tmp_path / "language.yaml"
    path.write_text(dump_recipe(language_recipe(name, tmp_path, training=raw)))
    assert run_here(path, "--out", tmp_path / "whole").exit_code == 0
    folder = tmp_path / "run"
    for number in range(2):
        args = (path, "--resume") if number else (path,)
        kill(folder, args, new_checkpoint(folder), pause=0.02)
    assert run_here(path, "--resume", "--out", folder).exit_code == 0
    assert_same(folder, tmp_path / "whole")
