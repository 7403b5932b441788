"""One step of the optimizer, over the batches that it is given."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.models.contracts import AnyModel
from regard.training.expert_load import ExpertLoad
from regard.training.loss import Loss
from regard.training.weight_average import MovingAverage
from regard.types import Batch

LossFn = Callable[[AnyModel, Batch], Loss]


class StepContext(NamedTuple):
    """What a step works on."""

    model: AnyModel
    loss: LossFn
    optimizer: torch.optim.Optimizer
    ema: MovingAverage | None
    totals: Tensor
    """(2,) what was minimised and the surprise, summed since somebody looked."""
    expert_load: ExpertLoad
    clip_norm: float
    """Gradients with a longer norm are cut to this; 0 never cuts."""
    autocast: Callable[[], AbstractContextManager[Any]]
    """What the products are computed in."""


class TrainingStep(Protocol):
    """Whoever learns from some batches."""

    def __call__(self, batches: Sequence[Batch], *, lr: float, step: int) -> None:
        """Step number `step`, from 1, with the learning rate `rate`."""
        ...


class EagerStep:
    """A step as it reads: on every device, for every model."""

    def __init__(self, context: StepContext) -> None:
        self.context = context
        self.parameters = list(context.model.parameters())
        self.device = self.parameters[0].device

    def __call__(self, batches: Sequence[Batch], *, lr: float, step: int) -> None:
        context, tokens = self.context, sum(batch.num_tokens for batch in batches)
        for batch in batches:
            with context.autocast():
                loss = context.loss(context.model, batch.to(self.device))
            torch.autograd.backward(loss.loss / tokens)
            context.totals.add_(torch.stack([loss.loss.detach(), loss.nll]))
            context.expert_load.add(loss.routings)
        if context.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, context.clip_norm)
        for group in context.optimizer.param_groups:
            group["lr"] = lr
        context.optimizer.step()
        context.optimizer.zero_grad(set_to_none=True)
        if context.ema:
            context.ema.update(self.parameters, step)
