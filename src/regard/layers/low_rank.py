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
    """Low-rank updates of the matrices, trained while all other weights are frozen, except those
    that are new to the model.
    """

    rank: PositiveInt = 8
    """The rank r of the updates: a matrix (N, D) gets r (N + D) trained weights. A matrix whose own
    rank is no higher, such as the output layer of a classifier with few labels, is trained
    itself."""
    alpha: PositiveFloat = 16.0
    """The updates are multiplied by alpha / rank, so that the learning rate need not change with
    the rank."""
    embeddings: bool = True
    """Whether to update the vectors of tokens too, and with them an output layer that shares them;
    false: only linear layers."""


class LowRankUpdate(nn.Module):
    """W + α/r · B A, for a frozen matrix W (N, D); B (N, r) is initialised with zeros, A (r, D) at
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
    """Freeze `model`, and give the matrices of its linear layers and embeddings a trainable update.
    The parameters named in `new`, which have not been trained yet, are trained themselves.

    So is a matrix whose own rank is no higher, such as that of a layer with one output, because any
    change of it is an update of that rank. A matrix that is already parametrized, as by weight
    norm, stays frozen.
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
    """The state of a model with its low-rank updates merged into the matrices, under the names of a
    model without updates; for a model without any, its state.
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
    """For each matrix with a low-rank update, the prefix of its parts' names in torch, and its own
    name.
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
    """Factors (N, r) and (r, D) of a matrix (N, D): exact up to rounding if its rank is at most r,
    otherwise nearly the best approximation (Halko et al. 2011, algorithm 4.4).
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
