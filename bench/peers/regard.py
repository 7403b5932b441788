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
    """A translator whose scores and stopping rule are those that all engines know.

    A run may have been made with others, which no peer has: then it would be measured at other
    work.
    """

    def __init__(self, folder: Path, setup: Setup) -> None:
        self.translator = load(folder, device=setup.device)
        told = self.translator.settings
        rules = told.rules.model_copy(update={"excluded": "spread"})
        beam = told.beam.model_copy(update={"normalise": "power", "stop": "size"})
        self.settings = told.model_copy(update={"rules": rules, "beam": beam})

    def translate(self, texts: Sequence[str], beam: int) -> list[str]:
        settings = search_settings(self.settings, beam=beam)
        return [answer.text for answer in self.translator.translate(texts, settings)]


def open_engine(folder: Path, setup: Setup) -> Engine:
    """The translator of a run."""
    return Translating(folder, setup)


def open_trainer(shape: Shape, setup: Setup) -> Trainer:
    """A fresh model."""
    from bench.peers.regard_training import Training

    return Training(shape, setup)
