"""Ourselves: the translator that `regard.load` gives, and the loop that `regard train` runs."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from bench.peers.contract import Engine, ModelShape, PeerConfig, Trainer
from regard.decoding.settings import RuleSettings, portable_settings, search_settings
from regard.engines.engine_tuning import (
    CPU_BUDGET,
    CT2_BUDGET,
    MEASURED_FILE,
    EngineConfig,
    count_cores,
)
from regard.tasks.translation.needed import require_text_task
from regard.tasks.translation.pipeline import EngineChoice, load

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
    (folder / MEASURED_FILE).unlink(missing_ok=True)
    copy = RunFolder(folder)
    recipe = require_text_task(copy.load_recipe(), str(copy.path))
    alike = portable_settings(recipe.decoding)
    plain = alike.model_copy(update={"rules": RuleSettings()})  # peers are told no others
    copy.save_recipe(recipe.model_copy(update={"decoding": plain}))
    load(folder, device="cpu")  # what an engine makes once is made before anything is timed


class RegardEngine:
    """A translator."""

    def __init__(self, folder: Path, setup: PeerConfig) -> None:
        native = setup.engine == "native"
        engine: EngineChoice = "native" if native else "auto"
        precision = setup.precision if native else "auto"
        choice = None
        if setup.workers != count_cores():
            choice = EngineConfig(
                engine="native" if native else "ctranslate2",
                precision=precision,
                workers=setup.workers,
                budget=CPU_BUDGET if native else CT2_BUDGET,
            )
        self.translator = load(
            folder, device=setup.device, engine=engine, precision=precision, choice=choice
        )

    def translate(self, texts: Sequence[str], beam: int) -> list[str]:
        settings = search_settings(self.translator.settings, beam=beam)
        return [answer.text for answer in self.translator.translate(texts, settings, split=False)]


def open_engine(folder: Path, setup: PeerConfig) -> Engine:
    """The translator of a run."""
    return RegardEngine(folder, setup)


def open_trainer(shape: ModelShape, setup: PeerConfig) -> Trainer:
    """A fresh model."""
    from bench.peers.regard_training import RegardTrainer

    return RegardTrainer(shape, setup)
