"""A translator that was imported goes back to transformers, as it came or trained further."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from regard.errors import RunError
from regard.pipelines.exchange.export_run import export_folder
from regard.pipelines.exchange.import_run import import_folder
from regard.recipes.run_folder import RunFolder
from regard.training.checkpoints import load_weights, save_weights
from seq2seq_folders import make_bart, make_m2m100, make_marian

FOLDERS: dict[str, Callable[[Path], None]] = {
    "marian": make_marian,
    "marian with two vocabularies": partial(make_marian, separate=True),
    "m2m_100": make_m2m100,
    "bart": make_bart,
    "mbart": partial(make_bart, pre_norm=True),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_translators_go_back_also_when_every_weight_was_trained_on(
    name: str, tmp_path: Path
) -> None:
    """Their decoders begin with a token that has another use, and share its vector."""
    (tmp_path / "theirs").mkdir()
    FOLDERS[name](tmp_path / "theirs")
    run = import_folder(tmp_path / "theirs", tmp_path / "run").folder
    export_folder(run, tmp_path / "same")
    file, rng = RunFolder(run).weights("model"), torch.Generator().manual_seed(0)

    def moved(weight: Tensor) -> Tensor:
        return weight + 0.1 * torch.randn(weight.shape, generator=rng)

    save_weights(file, {name: moved(weight) for name, weight in load_weights(file).items()})
    gate = export_folder(run, tmp_path / "other").report.gate
    assert gate.refused is None
    assert gate.same_answers == gate.answers


def test_a_refusal_says_on_lines_of_their_own_why_each_family_does_not_fit(
    words_run: Path, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="exported as any family of transformers:\n") as caught:
        export_folder(words_run, tmp_path / "out")
    _, *lines = str(caught.value).splitlines()
    names = [line.partition(": ")[0].strip() for line in lines]
    assert names[0] == "marian"
    assert sorted(", ".join(names).split(", ")) == ["bart", "m2m_100", "marian", "mbart", "pegasus"]
    assert "words: Marian's tokenizer has only SentencePiece's" in lines[0]
