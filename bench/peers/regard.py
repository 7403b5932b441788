"""Ourselves: the translator that `regard.load` gives, and the loop that `regard train` runs."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.peers.contract import Engine, Setup, Shape, Trainer
from regard.decoding.settings import RuleSettings
from regard.serving import late
from regard.serving.measured import FILE, Choice, count_cores
from regard.serving.searching import for_all_engines, search_settings
from regard.serving.translator import EngineChoice, load

COPIED = ("*.yaml", "*.safetensors", "*.json", "*.model")
"""What a translator reads of a run's folder."""


def export(run: Path, folder: Path) -> None:
    """Copy what a translator needs: what an engine writes beside it is not to land in the run.

    Scores and the stopping rule become those that all engines know. A run may have been made with
    others, which no peer has: it would be measured at other work.
    """
    from regard.recipes.run_folder import RunFolder

    for pattern in COPIED:
        for file in run.glob(pattern):
            shutil.copyfile(file, folder / file.name)
    (folder / FILE).unlink(missing_ok=True)
    copy = RunFolder(folder)
    recipe = copy.load_recipe()
    alike = for_all_engines(recipe.decoding)
    plain = alike.model_copy(update={"rules": RuleSettings()})  # peers are told no others
    copy.save_recipe(recipe.model_copy(update={"decoding": plain}))
    load(folder, device="cpu")  # what an engine makes once is made before anything is timed


class Translating:
    """A translator."""

    def __init__(self, folder: Path, setup: Setup) -> None:
        native = setup.engine == "native"
        engine: EngineChoice = "native" if native else "auto"
        precision = setup.precision if native else "auto"
        choice = None
        if setup.workers != count_cores():
            choice = Choice(
                engine="native" if native else "ctranslate2",
                precision=precision,
                workers=setup.workers,
                budget=late.native().CPU_BUDGET if native else late.fast().BUDGET,
            )
        self.translator = load(
            folder, device=setup.device, engine=engine, precision=precision, choice=choice
        )

    def translate(self, texts: Sequence[str], beam: int) -> list[str]:
        settings = search_settings(self.translator.settings, beam=beam)
        return [answer.text for answer in self.translator.translate(texts, settings, split=False)]


def open_engine(folder: Path, setup: Setup) -> Engine:
    """The translator of a run."""
    return Translating(folder, setup)


def open_trainer(shape: Shape, setup: Setup) -> Trainer:
    """A fresh model."""
    from bench.peers.regard_training import Training

    return Training(shape, setup)
