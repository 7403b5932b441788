"""A run -> a compact copy for inference and evaluation, with weights in 16 bits."""

import re
import shutil
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from regard.atomic_io import temporary_folder, write_atomic
from regard.errors import RunError, SettingsError
from regard.manifest import check_file, list_files
from regard.pipelines.exchange.exchange_report import (
    move_into_place,
    require_free,
)
from regard.recipes.run_folder import RunFolder, find_weights, load_checked_weights
from regard.training.checkpoints import save_weights

CompactPrecision = Literal["float16", "bfloat16", "float32"]
DTYPES: dict[CompactPrecision, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
}
LEFT_OUT = re.compile(
    r"model\.safetensors|(weights|adapters|refined|ctranslate2|onnx)/.*|data/train\..*"
    r"|data/.*\.mark|measured\.json"
)
"""Files of a run that are not copied: those that only training reads, and those made from the
weights in float32. `list_files` does not list logs and checkpoints."""
CARD = """
## This copy

Made by `regard export RUN --to run`: its weights are stored in {precision}, and what training alone
needs is left out. The scores above are those of the run itself, in float32; `regard evaluate DIR`
takes those of the copy. `regard train DIR/recipe.yaml` trains the run again.
"""


def compact_precision(precision: str) -> CompactPrecision:
    """The precision in which a copy stores weights; `auto` is float16."""
    chosen = "float16" if precision == "auto" else precision
    for known in DTYPES:
        if known == chosen:
            return known
    raise SettingsError(f"--precision {precision}: choose float16 (auto), bfloat16 or float32")


def export_compact(
    path: Path, out: Path, *, weights: str = "model", precision: CompactPrecision = "float16"
) -> int:
    """Write a compact copy of a run into the folder `out`, and return its size in bytes."""
    run = RunFolder(path)
    run.load_recipe()  # raises an error if there is no run
    file = find_weights(run, weights)
    rounded = _round(file, load_checked_weights(run, file), precision)
    require_free(out)
    with temporary_folder(out.parent) as place:
        for name in list_files(path):
            if LEFT_OUT.fullmatch(name) is None:
                check_file(path / name)
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path / name, place / name)
        copy = RunFolder(place)
        save_weights(copy.weights("model"), rounded)
        if copy.card.is_file():
            card = copy.card.read_bytes() + CARD.format(precision=precision).encode()
            write_atomic(copy.card, card)
        copy.rebuild_manifest()
        size = sum(one.stat().st_size for one in place.rglob("*") if one.is_file())
        move_into_place(place, out)
    return size


def _round(
    file: Path, weights: dict[str, Tensor], precision: CompactPrecision
) -> dict[str, Tensor]:
    """The weights in a precision; an error if one is too large for it."""
    rounded = {name: tensor.to(DTYPES[precision]) for name, tensor in weights.items()}
    beyond = [name for name, tensor in rounded.items() if not tensor.isfinite().all()]
    if beyond:
        raise RunError(
            f"{file}: {beyond[0]}: has numbers that are too large for {precision}; give "
            "--precision bfloat16, or float32"
        )
    return rounded
