"""Low-rank updates of linear layers (LoRA, Hu et al. 2021), which can be merged."""

import math
from operator import attrgetter

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.utils import parametrize

from regard.errors import SettingsError
from regard.settings import Settings

WEIGHT = "weight"  # the parameter of a linear layer that is updated
ORIGINAL = f".parametrizations.{WEIGHT}.original"  # how torch calls what is updated
POWER_ITERATIONS = 2  # of `factorize`; one suffices for a matrix whose rank is exact


class LoraSettings(Settings):
    """A low-rank update of each linear layer, which learns while all else is frozen."""

    rank: PositiveInt = 8
    """Rank r of the updates: a matrix (N, D) has r (N + D) weights that learn."""
    alpha: PositiveFloat = 16.0
    """The updates are multiplied by alpha / rank, so that other ranks need no other learning
    rate."""


class LowRankUpdate(nn.Module):
    """W + α/r · B A, of a matrix W (N, D) that is frozen; B (N, r) begins as zeros, A (r, D) at
    random (section 4.1 of the paper).
    """

    def __init__(self, weight: Tensor, settings: LoraSettings) -> None:
        super().__init__()
        (outputs, inputs), rank = weight.shape, settings.rank
        self.scale = settings.alpha / rank
        self.down = nn.Parameter(weight.new_empty(rank, inputs))  # A
        self.up = nn.Parameter(weight.new_zeros(outputs, rank))  # B
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, weight: Tensor) -> Tensor:
        """(N, D) -> (N, D)"""
        return weight + self.scale * (self.up @ self.down)


def add_low_rank_updates(model: nn.Module, settings: LoraSettings) -> None:
    """Freeze `model`, and give each of its linear layers an update that learns.

    Layers of no higher rank have none, such as those with one output, nor have those that are
    parametrized already, as by weight norm.
    """
    layers = [
        layer
        for layer in model.modules()
        if isinstance(layer, nn.Linear)
        and not parametrize.is_parametrized(layer)
        and min(layer.weight.shape) > settings.rank
    ]
    if not layers:
        raise SettingsError(
            f"training.fine_tuning.lora: the model has no linear layers of a rank above "
            f"{settings.rank} that could be updated; lower the rank, or train all weights"
        )
    model.requires_grad_(False)
    for layer in layers:
        update = LowRankUpdate(layer.weight, settings)
        parametrize.register_parametrization(layer, WEIGHT, update)


def merged_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """The state of a model under the names that it has without low-rank updates, which are added
    to what they update; of a model without any, its state.
    """
    merged: dict[str, Tensor] = {}
    updated = {
        f"{name}.parametrizations.{WEIGHT}.": name
        for name, layer in model.named_modules()
        if _is_updated(layer)
    }
    for name, tensor in model.state_dict().items():
        prefix = next((one for one in updated if name.startswith(one)), None)
        if prefix is None:
            merged[name] = tensor
        elif name.endswith(ORIGINAL):
            full_name = f"{updated[prefix]}.{WEIGHT}"
            matrix: Tensor = attrgetter(full_name)(model)
            merged[full_name] = matrix.detach()
    return merged


def _is_updated(layer: nn.Module) -> bool:
    if not parametrize.is_parametrized(layer, WEIGHT):
        return False
    return isinstance(layer.get_submodule(f"parametrizations.{WEIGHT}.0"), LowRankUpdate)


def factorize(matrix: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Factors (N, r) and (r, D) of a matrix (N, D) of at most that rank, up to rounding; of one
    of a higher rank, nearly the best such factors (Halko et al. 2011, algorithm 4.4).
    """
    exact = matrix.double()
    rank = min(rank, *exact.shape)
    draws = torch.Generator().manual_seed(0)
    basis = exact @ torch.randn(exact.shape[1], rank, generator=draws, dtype=exact.dtype)  # (N, r)
    for _ in range(POWER_ITERATIONS):
        other, _ = torch.linalg.qr(exact.T @ torch.linalg.qr(basis)[0])  # (D, r)
        basis = exact @ other
    up, _ = torch.linalg.qr(basis)  # (N, r)
    return up, up.T @ exact
