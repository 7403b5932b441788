import shutil

import pytest
import torch
from typer.testing import CliRunner

from regard.cli.main import command_app
from regard.errors import RunError, SettingsError, StorageError
from regard.recipes.paths import PACKAGED_RUN
from regard.tasks.translation.pipeline import load
from regard.training.checkpoints import load_weights

app = command_app("average")


@pytest.fixture
def copied(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / "run")


def run(*args):
    return CliRunner().invoke(app, [*map(str, args)], catch_exceptions=False)


def kept(path):
    return sorted((path / "weights").glob("step-*"))


def test_the_best_that_the_run_keeps(copied):
    made = (copied / "weights" / "average.safetensors").read_bytes()
    (copied / "weights" / "average.safetensors").unlink()
    shown = run(copied)
    assert shown.exit_code == 0
    destination = copied / "weights" / "average.safetensors"
    assert shown.stderr == f"averaged 2 sets of weights into {destination}\n"
    first, second = map(load_weights, kept(copied)[-2:])  # the others are of older checkpoints
    for name, tensor in load_weights(destination).items():
        torch.testing.assert_close(tensor, (first[name] + second[name]) / 2)
    assert destination.read_bytes() == made  # as at the end of the training


def test_some_files_into_another(copied, tmp_path):
    out = tmp_path / "one.safetensors"
    run(copied, kept(copied)[0], "--output", out)
    assert out.read_bytes() == kept(copied)[0].read_bytes()
    assert load(copied, device="cpu", weights=str(out))("Elle danse.").candidates


def test_mistakes(copied, other_run, tmp_path):
    with pytest.raises(SettingsError, match=r"--output a\.pt: .* should end in \.safetensors"):
        run(copied, "--output", "a.pt")
    with pytest.raises(StorageError, match="no average is kept in the installed package"):
        run(PACKAGED_RUN, kept(copied)[0])
    with pytest.raises(RunError, match="no such file; has the run been trained"):
        run(copied, tmp_path / "none.safetensors")
    with pytest.raises(RunError, match="the names or shapes of its weights differ"):
        run(copied, kept(copied)[0], kept(other_run)[0])
    with pytest.raises(RunError, match=r"does not fit the model of .*: missing: "):
        run(copied, kept(other_run)[0])
    with pytest.raises(SettingsError, match="named twice; name each run once"):
        run(copied, f"{copied}/../run")
    with pytest.raises(RunError, match="not a run"):
        run(tmp_path)
    shutil.rmtree(copied / "checkpoints")
    with pytest.raises(RunError, match="none of its weights have been validated yet; name files"):
        run(copied)
