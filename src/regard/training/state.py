"""The tensors of a training: weights and their average, the optimizer's, what the loss carries."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from regard.models.contracts import AnyModel
from regard.training.distributed.ranks import Ranks
from regard.training.layer_groups import LayerGroups
from regard.training.optimizer import OPTIMIZER_STATES, OptimizerSettings, build_optimizer
from regard.training.step import MovingAverage, TriggeredAverage

CarriedTensors = Sequence[Mapping[str, Tensor]]
"""What the loss keeps of each batch of a step for that of the next, by name; empty: nothing."""


class TrainingState:
    """All that a step changes; as tensors of a checkpoint (`checkpoints.Checkpoint`) and back."""

    def __init__(
        self,
        model: AnyModel,
        layers: LayerGroups,
        settings: OptimizerSettings,
        carried: CarriedTensors,
        ranks: Ranks,
    ) -> None:
        self.parameters = dict(model.named_parameters())
        self.device = next(iter(self.parameters.values())).device
        self.optimizer = build_optimizer(model, settings, layers)
        self.ema: MovingAverage | None = None
        self._kinds = OPTIMIZER_STATES[settings.kind]
        self._carried, self._ranks = carried, ranks
        ranks.broadcast_([parameter.detach() for parameter in self.parameters.values()])

    def average(self, *, decay: float, triggered: bool) -> TriggeredAverage | None:
        """Keep an average of the weights beside them: a moving one of some `decay`, or one that
        begins when it is `triggered`, which is returned; neither: none.
        """
        averaged = list(self.parameters.values())
        late = TriggeredAverage(averaged) if triggered else None
        self.ema = MovingAverage(averaged, decay) if decay else late
        return late

    # -- checkpoints ------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint; complete on rank 0."""
        tensors: dict[str, Tensor] = {f"model.{name}": p for name, p in self.parameters.items()}
        if self.ema:
            pairs = zip(self.parameters, self.ema.shadow, strict=True)
            tensors |= {f"moving.{name}": shadow for name, shadow in pairs}
        for name, parameter in self.parameters.items():
            for kind, tensor in self.optimizer.state[parameter].items():
                tensors[f"{kind}.{name}"] = tensor
        for number, carried in enumerate(self._carried):
            for name, tensor in carried.items():
                for rank, found in enumerate(self._ranks.gather(tensor)):
                    tensors[self._carried_key(number, rank, name)] = found
        tensors["rng.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` gave, but for what the loss carries; a KeyError or a RuntimeError
        if the model is another one.
        """
        self.copy_weights([tensors[f"model.{name}"] for name in self.parameters])
        if self.ema:
            for shadow, name in zip(self.ema.shadow, self.parameters, strict=True):
                shadow.copy_(tensors[f"moving.{name}"])
        for name, parameter in self.parameters.items():
            # None yet for a parameter that never had a gradient.
            found = {kind: tensors.get(f"{kind}.{name}") for kind in self._kinds}
            state = {kind: x.to(self.device) for kind, x in found.items() if x is not None}
            if state:
                self.optimizer.state[parameter] = state
        torch.set_rng_state(tensors["rng.cpu"])
        if self.device.type == "cuda" and "rng.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["rng.cuda"], self.device)

    def load_carried(self, tensors: Mapping[str, Tensor]) -> bool:
        """Restore what the loss carries; False, and nothing is restored, if a step had another
        number of batches.
        """
        keys = {
            self._carried_key(number, self._ranks.number, name): tensor
            for number, carried in enumerate(self._carried)
            for name, tensor in carried.items()
        }
        count = sum(key.startswith("carried.") for key in tensors)
        if count != len(keys) * self._ranks.count:
            return False
        for key, tensor in keys.items():
            tensor.copy_(tensors[key])
        return True

    def _carried_key(self, number: int, rank: int, name: str) -> str:
        """The name in a checkpoint of a tensor of a rank's batch `number` of a step."""
        if len(self._carried) * self._ranks.count == 1:
            return f"carried.{name}"
        return f"carried.{number * self._ranks.count + rank}.{name}"

    # -- other weights for a while ------------------------------------------------------------

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """Within it the model has the average of its weights, if one is kept."""
        if self.ema is None:
            yield
            return
        with self.replaced_by(self.ema.shadow):
            yield

    @contextmanager
    def replaced_by(self, values: Sequence[Tensor]) -> Iterator[None]:
        """Within it the model has other weights."""
        own = [p.detach().clone() for p in self.parameters.values()]
        self.copy_weights(values)
        try:
            yield
        finally:
            self.copy_weights(own)

    def copy_weights(self, values: Sequence[Tensor]) -> None:
        """Give the model other weights, in the order of `parameters`."""
        with torch.no_grad():
            for parameter, value in zip(self.parameters.values(), values, strict=True):
                parameter.copy_(value)

    def has_finite_weights(self) -> Tensor:
        """Whether all weights are finite numbers: ()."""
        sums = torch.stack([p.detach().sum() for p in self.parameters.values()])
        return sums.isfinite().all()
