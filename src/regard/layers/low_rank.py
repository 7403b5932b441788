"""Low-rank updates of matrices (LoRA, Hu et al. 2021), which can be merged."""

import math
from collections.abc import Collection, Iterator
from operator import attrgetter

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn.utils import parametrize

from regard.errors import SettingsError
from regard.layers.transformer_parts import TiedEmbeddings
from regard.settings import Settings

POWER_ITERATIONS = 2  # of `factorize`; one suffices for a matrix whose rank is exact


class LoraSettings(Settings):
    """A low-rank update of each matrix, which learns while all else is frozen, except what is new
    to the model."""

    rank: PositiveInt = 8
    """Rank r of the updates: a matrix (N, D) has r (N + D) weights that learn. One of no higher
    rank, such as the output layer of a classifier with few labels, learns itself."""
    alpha: PositiveFloat = 16.0
    """The updates are multiplied by alpha / rank, so that other ranks need no other learning
    rate."""
    embeddings: bool = True
    """Update the vectors of tokens too, and so an output layer that shares them; otherwise the
    linear layers alone."""


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


def add_low_rank_updates(
    model: nn.Module, settings: LoraSettings, new: Collection[str] = ()
) -> None:
    """Freeze `model`, and give the matrices of its linear layers and embeddings an update that
    learns. The parameters named in `new`, which have not been trained yet, learn themselves.

    So does a matrix of no higher rank, whose every change is an update of that rank, such as that
    of a layer with one output. One that is parametrized already, as by weight norm, is frozen.
    """
    kinds = (nn.Linear, nn.Embedding, TiedEmbeddings) if settings.embeddings else (nn.Linear,)
    trained = {p for name, p in model.named_parameters(remove_duplicate=False) if name in new}
    matrices = [
        (module, name, parameter)
        for module in model.modules()
        if isinstance(module, kinds) and not parametrize.is_parametrized(module)
        for name, parameter in module.named_parameters(recurse=False)
        if parameter.ndim == 2 and parameter.requires_grad and parameter not in trained
    ]
    if not matrices:
        raise SettingsError(
            "training.fine_tuning.lora: the model has no linear layers or embeddings that could be "
            "updated; train all weights"
        )
    trained |= {p for _, _, p in matrices if min(p.shape) <= settings.rank}
    frozen = [p for p in model.parameters() if p not in trained]
    for parameter in frozen:
        parameter.requires_grad_(False)
    for module, name, parameter in matrices:
        if parameter not in trained:
            update = LowRankUpdate(parameter, settings)
            parametrize.register_parametrization(module, name, update)


def merged_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """The state of a model under the names that it has without low-rank updates, which are added
    to what they update; of a model without any, its state.
    """
    merged: dict[str, Tensor] = {}
    updated = dict(_updated_matrices(model))
    for name, tensor in model.state_dict().items():
        prefix = next((one for one in updated if name.startswith(f"{one}.")), None)
        if prefix is None:
            merged[name] = tensor
        elif name == f"{prefix}.original":
            matrix: Tensor = attrgetter(updated[prefix])(model)
            merged[updated[prefix]] = matrix.detach()
    return merged


def _updated_matrices(model: nn.Module) -> Iterator[tuple[str, str]]:
    """For each matrix with a low-rank update, what torch begins the names of its parts with, and
    its own name.
    """
    for path, module in model.named_modules():
        if not parametrize.is_parametrized(module):
            continue
        parametrizations: nn.ModuleDict = module.get_submodule("parametrizations")
        for name, parts in parametrizations.items():
            if isinstance(parts.get_submodule("0"), LowRankUpdate):
                prefix = f"{path}." if path else ""
                yield f"{prefix}parametrizations.{name}", f"{prefix}{name}"


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
