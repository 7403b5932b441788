"""One step of the optimizer over some batches, with averages and counts."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.models.contracts import AnyModel
from regard.training.distributed.ranks import ALONE, Ranks
from regard.training.loss import LossFn
from regard.types import AnyBatch, Routing, Site

TrainingPrecision = Literal["float32", "bfloat16"]
PrecisionName = Literal["auto", "float32", "bfloat16"]
IDLE_SHARE = 0.1  # an expert that gets less than this fraction of a fair share is idle


def resolve_precision(name: PrecisionName, device: torch.device) -> TrainingPrecision:
    """The precision called `name`; "auto": bfloat16 where `device` has instructions for it."""
    if name != "auto":
        return name
    has_bfloat16 = False
    if device.type == "cuda":
        has_bfloat16 = torch.cuda.get_device_capability(device) >= (8, 0)
    elif device.type == "cpu":
        # No public function tells this in all supported versions of torch.
        has_bfloat16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return "bfloat16" if has_bfloat16 else "float32"


class MovingAverage:
    """An exponential moving average of a model's parameters, in float32 or wider."""

    def __init__(self, parameters: Sequence[Tensor], decay: float) -> None:
        self.decay = decay
        self.parameters = [p.detach() for p in parameters]
        self.shadow = [p.clone() for p in self.parameters]

    def ema_weight(self, step: int) -> float:
        """The weight of a step's parameters: larger at first, so that the initial ones fade out."""
        return 1 - min(self.decay, (1 + step) / (10 + step))

    def update(self, step: int) -> None:
        """Move the average towards the parameters."""
        with torch.no_grad():
            torch._foreach_lerp_(self.shadow, self.parameters, self.ema_weight(step))

    def update_by_device_weight(self, ema_weight: Tensor) -> None:
        """`update` by an `ema_weight` () that lies on the device."""
        with torch.no_grad():
            differences = torch._foreach_sub(self.parameters, self.shadow)
            torch._foreach_mul_(differences, ema_weight)
            torch._foreach_add_(self.shadow, differences)


class TriggeredAverage(MovingAverage):
    """The parameters themselves up to step `start`; after it, their mean over all steps since
    (Polyak and Juditsky 1992).
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        super().__init__(parameters, decay=0.0)
        self.start: int | None = None

    def ema_weight(self, step: int) -> float:
        return 1.0 if self.start is None else 1 / max(1, step - self.start)


class ExpertLoad:
    """How evenly a model's experts are used: summed on the device, read when metrics are logged."""

    def __init__(self) -> None:
        self._shares: dict[Site, Tensor] = {}  # of each layer (E,)

    def shares(self) -> list[Tensor]:
        """The sums of each layer (E,), which may be summed over ranks in place."""
        return list(self._shares.values())

    def add(self, routings: Iterable[Routing]) -> None:
        """Count one more batch."""
        for site, _, shares in routings:
            before = self._shares.get(site)
            self._shares[site] = shares if before is None else before + shares

    def pop_metrics(self) -> dict[str, float]:
        """Metrics of each layer since the last call: `busiest`, the largest share in units of a
        fair share, and `idle`, the number of experts with less than a tenth of a fair share.
        """
        numbers = {}
        for site, shares in self._shares.items():
            fair = shares / shares.mean()  # (E,)
            busiest, idle = torch.stack([fair.max(), (fair < IDLE_SHARE).sum()]).tolist()
            numbers[f"experts/{site.part}-{site.layer}/busiest"] = busiest
            numbers[f"experts/{site.part}-{site.layer}/idle"] = idle
        self._shares.clear()
        return numbers


class SumGradients(Protocol):
    """`Ranks.sum_gradients`."""

    def __call__(self, parameters: Sequence[Tensor], *, in_place: bool = False) -> None: ...


class StepContext(NamedTuple):
    """What a training step reads and updates: model, loss, optimizer, averages, running sums."""

    model: AnyModel
    loss: LossFn
    optimizer: torch.optim.Optimizer
    ema: MovingAverage | None
    totals: Tensor  # (2,) sums of loss and negative log-likelihood since the last log line
    expert_load: ExpertLoad
    clip_norm: float  # gradients with a longer norm are cut to this; 0 never cuts
    autocast: Callable[[], AbstractContextManager[Any]]  # sets the precision of products
    ranks: Ranks = ALONE  # the processes that train together
    sum_gradients: SumGradients = ALONE.sum_gradients  # over the ranks
    seed: int | None = None  # of each batch's random numbers; None: one stream for all

    def seed_batch(self, step: int, number: int) -> None:
        """Seed torch for this rank's batch `number` of a step. The seed depends on the place of the
        batch among those of all ranks, not on the rank that computes it.
        """
        if self.seed is not None:
            place = [self.seed, step, number * self.ranks.count + self.ranks.number]
            torch.manual_seed(int(np.random.SeedSequence(place).generate_state(1, np.uint64)[0]))


def count_labels(batches: Sequence[AnyBatch]) -> int:
    """The number of labels in some batches, by which gradients are divided."""
    return sum(batch.num_labels for batch in batches)


class TrainingStep(Protocol):
    """Updates the weights by some batches."""

    def __call__(
        self, batches: Sequence[AnyBatch], *, lr: float, step: int, tokens: int | None = None
    ) -> None:
        """Take step `step` (from 1) with the learning rate `lr`. `tokens` is the number of labels
        in all ranks' batches; None: in `batches`.
        """
        ...

    def forget_shapes(self) -> None:
        """Drop all captured graphs: other parameters are trained from now on."""
        ...


class EagerStep:
    """The plain step: for every device and every model."""

    def __init__(self, context: StepContext) -> None:
        self.context = context
        self.parameters = list(context.model.parameters())
        self.device = self.parameters[0].device

    def __call__(
        self, batches: Sequence[AnyBatch], *, lr: float, step: int, tokens: int | None = None
    ) -> None:
        context, tokens = self.context, tokens or count_labels(batches)
        for number, batch in enumerate(batches):
            context.seed_batch(step, number)
            with context.autocast():
                loss = context.loss(context.model, batch.to(self.device))
            torch.autograd.backward(loss.loss / tokens)
            context.totals.add_(torch.stack([loss.loss.detach(), loss.nll]))
            context.expert_load.add(loss.routings)
        context.sum_gradients(self.parameters)
        if context.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, context.clip_norm)
        for group in context.optimizer.param_groups:
            group["lr"] = lr * group["rate_factor"]
        with context.autocast():  # for the products of matrices in Muon
            context.optimizer.step()
        context.optimizer.zero_grad(set_to_none=True)
        if context.ema:
            context.ema.update(step)

    def forget_shapes(self) -> None:
        """Do nothing: there are no graphs."""
