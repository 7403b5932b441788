"""One step of the optimizer, over the batches that it is given."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.models.contracts import AnyModel
from regard.training.average import MovingAverage
from regard.training.expert_use import ExpertUse
from regard.training.loss import Loss
from regard.types import Batch

LossOf = Callable[[AnyModel, Batch], Loss]


class Learning(NamedTuple):
    """What a step works on."""

    model: AnyModel
    loss: LossOf
    optimizer: torch.optim.Optimizer
    moving: MovingAverage | None
    totals: Tensor
    """(2,) what was minimised and the surprise, summed since somebody looked."""
    expert_use: ExpertUse
    clip_norm: float
    """Gradients with a longer norm are cut to this; 0 never cuts."""
    autocast: Callable[[], AbstractContextManager[Any]]
    """What the products are computed in."""


class Step(Protocol):
    """Whoever learns from some batches."""

    def __call__(self, batches: Sequence[Batch], *, rate: float, step: int) -> None:
        """Step number `step`, from 1, with the learning rate `rate`."""
        ...


class PlainStep:
    """A step as it reads: on every device, for every model."""

    def __init__(self, learning: Learning) -> None:
        self.learning = learning
        self.parameters = list(learning.model.parameters())
        self.where = self.parameters[0].device

    def __call__(self, batches: Sequence[Batch], *, rate: float, step: int) -> None:
        it, tokens = self.learning, sum(batch.num_tokens for batch in batches)
        for batch in batches:
            with it.autocast():
                loss = it.loss(it.model, batch.to(self.where))
            torch.autograd.backward(loss.minimised / tokens)
            it.totals.add_(torch.stack([loss.minimised.detach(), loss.surprise]))
            it.expert_use.add(loss.routings)
        if it.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, it.clip_norm)
        for group in it.optimizer.param_groups:
            group["lr"] = rate
        it.optimizer.step()
        it.optimizer.zero_grad(set_to_none=True)
        if it.moving:
            it.moving.update(self.parameters, step)
