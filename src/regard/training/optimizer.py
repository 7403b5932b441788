"""Adam, Muon or SGD, and the learning rate at each step."""

import math
from collections.abc import Collection, Sequence
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, model_validator
from torch import Tensor, nn

from regard.attention.multihead import StackedLinear
from regard.errors import SettingsError
from regard.models.contracts import AnyModel, Model
from regard.settings import Settings
from regard.training.layer_groups import FineTuningSettings, LayerGroups, keep_trainable
from regard.training.muon import Muon, ParameterGroup

Decay = Annotated[float, Field(ge=0, lt=1)]


class ScheduleSettings(Settings):
    """How the learning rate rises and falls."""

    shape: Literal["paper", "inverse_sqrt", "cosine", "constant", "slanted_triangle"] = (
        "inverse_sqrt"
    )
    """The learning rate after the warm-up: falling with 1/√step, along a half cosine to `floor`, or
    constant. `slanted_triangle` is Howard and Ruder 2018, equation 3: it rises linearly over a
    share `cut_fraction` of all steps, then falls linearly, and has no other warm-up. `paper` is
    Vaswani et al. 2017, equation 3: an inverse square root whose peak is `learning_rate` / √(width
    x warmup), so that `learning_rate` is a factor, usually 1."""
    warmup: NonNegativeInt = 4000
    """Steps over which the rate rises linearly to its peak."""
    floor: float = Field(default=0.0, ge=0, le=1)
    """The rate at which the cosine ends, as a share of the peak."""
    cut_fraction: float = Field(default=0.1, gt=0, lt=1)
    """Share of the steps over which the slanted triangle rises."""
    ratio: float = Field(default=32.0, ge=1)
    """The ratio of the slanted triangle's peak to the rate at its beginning and end."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        if self.floor and self.shape != "cosine":
            raise ValueError(f"floor {self.floor} has no effect on {self.shape}: it is for cosine")
        slanted = self.shape == "slanted_triangle"
        for name in ("warmup",) if slanted else ("cut_fraction", "ratio"):
            if (given := getattr(self, name)) != type(self).model_fields[name].default:
                raise ValueError(f"{name} {given} has no effect on {self.shape}; leave it out")
        return self

    @property
    def warmup_steps(self) -> int:
        """Steps of the warm-up; 0 for the slanted triangle, which has none."""
        return 0 if self.shape == "slanted_triangle" else self.warmup


class OptimizerSettings(Settings):
    """Adam (Kingma and Ba 2015), or AdamW when there is weight decay; Muon; or gradient descent."""

    kind: Literal["adam", "muon", "sgd"] = "adam"
    """The update rule. `muon` (Jordan et al. 2024) moves the matrices of linear layers, except the
    output layer, along orthogonalized momentum, and everything else as `adam` does, both with one
    learning rate."""
    learning_rate: PositiveFloat = 5e-4
    """The peak of the schedule."""
    betas: tuple[Decay, Decay] = (0.9, 0.98)
    """Decay of the running mean of gradients and of their squares. For `adam` and `muon`."""
    epsilon: PositiveFloat = 1e-9
    """Keeps the division by the root of the squares finite. For `adam` and `muon`."""
    momentum: Decay = 0.0
    """Decay of the running sum of gradients. For `sgd`."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay of matrices (never of biases and norms): decoupled from the gradients in `adam`,
    where 0 gives plain Adam, and in `muon`; added to the gradients in `sgd`."""
    clip_norm: NonNegativeFloat = 1.0
    """The norm to which larger gradients are clipped; 0: no clipping."""

    @model_validator(mode="after")
    def _has_effect(self) -> Self:
        unused = ("betas", "epsilon") if self.kind == "sgd" else ("momentum",)
        for name in unused:
            if getattr(self, name) != type(self).model_fields[name].default:
                raise ValueError(f"{name} has no effect on kind: {self.kind}; leave it out")
        return self


def learning_rate(
    step: int, peak: float, schedule: ScheduleSettings, *, width: int, steps: int
) -> float:
    """The learning rate of step `step` (from 1) of `steps`, for a model of `width`."""
    warmup = max(1, schedule.warmup)
    if schedule.shape == "paper":
        peak = peak / math.sqrt(width * warmup)
    rise = min(1.0, step / warmup)
    match schedule.shape:
        case "paper" | "inverse_sqrt":
            return peak * rise * math.sqrt(warmup / max(step, warmup))
        case "cosine":
            fraction_done = min(1.0, max(0, step - warmup) / max(1, steps - warmup))
            half_cosine = (1 + math.cos(math.pi * fraction_done)) / 2
            return peak * rise * (schedule.floor + (1 - schedule.floor) * half_cosine)
        case "constant":
            return peak * rise
        case "slanted_triangle":
            cut = max(1, int(steps * schedule.cut_fraction))
            falling = max(0.0, 1 - (step - cut) / max(1, steps - cut))
            share = step / cut if step < cut else falling
            return peak * (1 + share * (schedule.ratio - 1)) / schedule.ratio


ADAM_STATES = ("step", "exp_avg", "exp_avg_sq")
MOMENTUM_STATES = ("momentum_buffer",)


def state_names(optimizer: torch.optim.Optimizer, parameter: Tensor) -> tuple[str, ...]:
    """The names of the optimizer's state of a parameter that has had gradients."""
    by_momentum = isinstance(optimizer, torch.optim.SGD) or (
        isinstance(optimizer, Muon) and parameter in optimizer.rows
    )
    return MOMENTUM_STATES if by_momentum else ADAM_STATES


def build_optimizer(
    model: AnyModel | nn.Module, settings: OptimizerSettings, layers: LayerGroups | None = None
) -> torch.optim.Optimizer:
    """An optimizer of the model's parameters, grouped by weight decay and by the learning rate of
    their `layers`. A step multiplies the learning rate by each group's `rate_factor`.
    """
    by_factor = {1.0: list(model.parameters())}
    if layers is not None:
        by_factor = {layers.rate_factor(n): [] for n in range(len(layers.groups))}
        for number, parameters in enumerate(layers.groups):
            by_factor[layers.rate_factor(number)] += parameters
    decays = {True: settings.weight_decay, False: 0.0}
    groups: list[ParameterGroup] = [
        {
            "params": [p for p in parameters if (p.ndim > 1) is matrix],
            "weight_decay": decays[matrix],
            "rate_factor": factor,
        }
        for factor, parameters in by_factor.items()
        for matrix in (True, False)
    ]
    groups = [group for group in groups if group["params"]]
    lr = settings.learning_rate
    if settings.kind == "sgd":
        return torch.optim.SGD(groups, lr=lr, momentum=settings.momentum, fused=True)
    adam: dict[str, Any] = {"betas": settings.betas, "eps": settings.epsilon, "fused": True}
    if settings.kind == "adam":
        return torch.optim.AdamW(groups, lr=lr, **adam)
    hidden = hidden_matrices(model)
    return Muon(*_split_groups(groups, hidden), hidden, lr=lr, **adam)


def _split_groups(
    groups: Sequence[ParameterGroup], chosen: Collection[Tensor]
) -> tuple[list[ParameterGroup], list[ParameterGroup]]:
    """The groups of the `chosen` parameters, and those of the others."""
    inside, outside = (
        [
            group | {"params": [p for p in group["params"] if (p in chosen) is wanted]}
            for group in groups
        ]
        for wanted in (True, False)
    )
    return [one for one in inside if one["params"]], [one for one in outside if one["params"]]


def check_trainable(
    model: AnyModel, settings: OptimizerSettings, fine_tuning: FineTuningSettings
) -> None:
    """Raise a `SettingsError` if a model cannot be trained with the settings, for example because
    it lacks the groups of layers that they name. The model is not changed.
    """
    with keep_trainable(model):
        build_optimizer(model, settings, LayerGroups(model, fine_tuning))


def hidden_matrices(model: AnyModel | nn.Module) -> dict[Tensor, Sequence[int]]:
    """The weights of all linear layers except output layers, each with the numbers of rows of the
    matrices that it holds, one below the other. Raises an error if there are none. Weights that are
    computed from others, as by weight norm, are left out.
    """
    outputs = (part.output_layer() for part in model.modules() if isinstance(part, Model))
    excluded = {output.weight for output in outputs if output is not None}
    found: dict[Tensor, Sequence[int]] = {
        layer.weight: layer.sizes if isinstance(layer, StackedLinear) else [layer.out_features]
        for layer in model.modules()
        if isinstance(layer, nn.Linear) and isinstance(layer.weight, nn.Parameter)
    }
    found = {weight: rows for weight, rows in found.items() if weight not in excluded}
    if not found:
        raise SettingsError(
            f"training.optimizer.kind muon is for the matrices of linear layers, of which "
            f"{type(model).__name__} has none below its output, or none without weight norm; "
            "choose adam"
        )
    return found
