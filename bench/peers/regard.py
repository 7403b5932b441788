"""Ourselves: the translator that `regard.load` gives, and the loop that `regard train` runs."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.peers.contract import Engine, Setup, Shape, Trainer
from regard.serving.searching import search_settings
from regard.serving.translator import load

COPIED = ("*.yaml", "*.safetensors", "*.json", "*.model")
"""What a translator reads of a run's folder."""


def export(run: Path, folder: Path) -> None:
    """Copy what a translator needs: what an engine writes beside it is not to land in the run."""
    for pattern in COPIED:
        for file in run.glob(pattern):
            shutil.copyfile(file, folder / file.name)


class Translating:
    """A translator with the recipe's own settings, but for the beam."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        self.translator = load(folder, device=setup.device)

    def translate(self, texts: Sequence[str], beam: int) -> list[str]:
        settings = search_settings(self.translator.settings, beam=beam)
        return [answer.text for answer in self.translator.translate(texts, settings)]


def open_engine(folder: Path, setup: Setup) -> Engine:
    """The translator of a run."""
    return Translating(folder, setup)


def open_trainer(shape: Shape, setup: Setup) -> Trainer:
    """A fresh model."""
    from bench.peers.regard_training import Training

    return Training(shape, setup)
