"""What the exports to several peers share: a run of ours taken apart."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from bench.peers.contract import ModelShape
from regard.errors import RunError
from regard.models.translation.transformer_settings import TransformerSettings
from regard.recipes.open_run import Run, open_run

TOKENIZER = "tokenizer.model"
SHAPE = "shape.json"


class ExportableRun(NamedTuple):
    """A run that peers can take over."""

    run: Run
    shape: ModelShape
    weights: dict[str, Tensor]
    length_penalty: float


def load_exportable_run(path: Path) -> ExportableRun:
    """The run in a folder, or an error that says why peers have no such model."""
    run = open_run(path, device=torch.device("cpu"))
    settings = run.recipe.model
    if not isinstance(settings, TransformerSettings):
        raise RunError(
            f"{path}: a model of the family {settings.family}, which no peer has; "
            "measure a Transformer beside them, or leave them out with --peers regard"
        )
    odd = {
        "positions": (settings.positions, "sinusoid"),
        "activation": (settings.activation, "relu"),
        "embeddings": (settings.embeddings, "shared"),
        "bias": (settings.bias, True),
        "window": (settings.window, None),
        "experts": (settings.experts, None),
        "final_norm": (settings.final_norm, settings.norm == "pre"),
    }
    for name, (found, needed) in odd.items():
        if found != needed:
            raise RunError(
                f"{path}: model.{name} is {found}; the peers have {needed} only: leave them out "
                "with --peers regard, or measure another run"
            )
    if not (path / TOKENIZER).is_file():
        raise RunError(f"{path}: holds no {TOKENIZER}; peers read one SentencePiece vocabulary")
    shape = shape_of(settings, run.tokenizers.target.size)
    weights = {name: tensor.detach() for name, tensor in run.model.state_dict().items()}
    return ExportableRun(run, shape, weights, run.recipe.decoding.beam.length_penalty)


def shape_of(settings: TransformerSettings, vocabulary: int) -> ModelShape:
    """The sizes of our own settings."""
    return ModelShape(
        settings.encoder_layers,
        settings.decoder_layers,
        settings.width,
        settings.heads,
        settings.feed_forward,
        settings.dropout,
        settings.norm,
        vocabulary,
    )


def save_text(taken: ExportableRun, folder: Path) -> None:
    """Write what every peer needs beside its weights: the vocabulary and how scores are ranked."""
    shutil.copyfile(taken.run.folder.path / TOKENIZER, folder / TOKENIZER)
    text = taken.run.recipe.text.source
    found = {"length_penalty": taken.length_penalty, "form": text.form, "lowercase": text.lowercase}
    (folder / SHAPE).write_text(json.dumps(found | asdict(taken.shape)), encoding="utf-8")
