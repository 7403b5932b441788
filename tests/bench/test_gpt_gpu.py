import shutil
import subprocess

import pytest
import torch

from bench import gpt_gpu
from bench.peers.gpt_checkout import commit_of, training_step
from regard.errors import SettingsError

MODEL = """
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GPTConfig:
    block_size: int = 1024
    vocab_size: int = 50304
    dropout: float = 0.1


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        assert config.dropout == 0.0
        self.table = nn.Embedding(config.vocab_size, config.vocab_size)

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        assert device_type == "cpu"
        return torch.optim.SGD(self.parameters(), lr=100.0)

    def forward(self, idx, targets=None):
        assert torch.is_autocast_enabled("cpu")
        logits = self.table(idx)
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
"""


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / "aPeer"
    folder.mkdir()
    (folder / "model.py").write_text(MODEL, "utf-8")
    git = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "A model"]):
        subprocess.run([*git, *words], check=True)
    return folder


def test_the_model_of_a_checkout_learns(checkout):
    step = training_step(checkout, torch.device("cpu"), compiled=False, vocab_size=5, block_size=8)
    window = torch.arange(9).remainder(5).repeat(2, 1)
    losses = [step(window).item() for _ in range(20)]
    assert losses[-1] < 0.5 * losses[0]


def test_a_checkout_is_measured_beside_the_others_and_its_commit_is_told(checkout, capsys):
    found = gpt_gpu.contenders([checkout])
    assert list(found) == [*gpt_gpu.CONTENDERS, "training: aPeer, compiled", "training: aPeer"]
    commit = commit_of(checkout)
    assert len(commit) == 40
    assert capsys.readouterr().out == f"aPeer: commit {commit}\n"
    (checkout / "model.py").write_text(MODEL + "# changed", "utf-8")
    assert commit_of(checkout) == f"{commit}, model.py changed"


@pytest.mark.parametrize(
    ("files", "message"),
    [({}, "no checkout with a model.py"), ({"model.py": ""}, "git knows no commit of it")],
)
def test_a_folder_of_which_nothing_can_be_told_is_no_peer(files, message, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(SettingsError, match=message):
        gpt_gpu.contenders([tmp_path])


def test_a_folder_inside_a_repository_is_not_taken_for_its_commit(checkout):
    (checkout / "inner").mkdir()
    shutil.copy(checkout / "model.py", checkout / "inner")
    with pytest.raises(SettingsError, match="git knows no commit of it"):
        commit_of(checkout / "inner")


def test_a_model_of_another_interface_is_called_so(tmp_path):
    (tmp_path / "model.py").write_text("class GPT: pass", "utf-8")
    with pytest.raises(SettingsError, match=r"model\.py: has no class GPTConfig$"):
        training_step(tmp_path, torch.device("cpu"), compiled=False)


def test_the_strongest_peer_is_named(capsys):
    rates = {"training: regard": 6.0, "training: x": 3.0, "training: y": 5.0, "completing: x": 9.0}
    gpt_gpu.compare(rates)
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        "training: regard is 2.00 times x",
        "training: regard is 1.20 times y",
        "training: the strongest of these peers is y",
    ]
