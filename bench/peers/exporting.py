"""What the exports to several peers share: a run of ours taken apart, and the proof afterwards."""

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from bench.peers.contract import Shape
from regard.batching.collate import collate
from regard.errors import RunError
from regard.models.contracts import AnyModel
from regard.models.transformer import TransformerSettings
from regard.recipes.run_folder import Run, load_run
from regard.types import Batch

CLOSE = 1e-3
"""How far a logit may be from ours, which are some tens apart: float32 sums in another order."""
TOKENIZER = "tokenizer.model"
SHAPE = "shape.json"


class Taken(NamedTuple):
    """A run that peers can take over."""

    run: Run
    shape: Shape
    weights: dict[str, Tensor]
    length_penalty: float


def take_run(path: Path) -> Taken:
    """The run in a folder, or an error that says why peers have no such model."""
    run = load_run(path, device=torch.device("cpu"))
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
    return Taken(run, shape, weights, run.recipe.decoding.beam.length_penalty)


def shape_of(settings: TransformerSettings, vocabulary: int) -> Shape:
    """The sizes of our own settings."""
    return Shape(
        settings.encoder_layers,
        settings.decoder_layers,
        settings.width,
        settings.heads,
        settings.feed_forward,
        settings.dropout,
        settings.norm,
        vocabulary,
    )


def save_text(taken: Taken, folder: Path) -> None:
    """Write what every peer needs beside its weights: the vocabulary and how scores are ranked."""
    shutil.copyfile(taken.run.folder.path / TOKENIZER, folder / TOKENIZER)
    text = taken.run.recipe.text.source
    found = {"length_penalty": taken.length_penalty, "form": text.form, "lowercase": text.lowercase}
    (folder / SHAPE).write_text(json.dumps(found | asdict(taken.shape)), encoding="utf-8")


@torch.inference_mode()
def prove_equal(model: AnyModel, vocabulary: int, logits_of: Callable[[Batch], Tensor]) -> None:
    """Nothing, or an error where a peer's logits (M, V) of some made-up batch are not ours."""
    chance = torch.Generator().manual_seed(0)

    def made_up(length: int) -> list[int]:
        return torch.randint(4, vocabulary, (length,), generator=chance).tolist()

    batch = collate([made_up(5), made_up(9)], [made_up(7), made_up(3)])
    ours = model(batch.source, batch.target).flatten(0, 1)[batch.places]  # (M, V)
    far = float((logits_of(batch) - ours).abs().max())
    if not far <= CLOSE:
        raise RunError(
            f"the exported model's logits are up to {far:.3g} from ours, more than {CLOSE:g}: "
            "the peer would be measured at other work; has its version another architecture?"
        )
