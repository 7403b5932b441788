"""The tensors of a training: weights, their average, optimizer state, what the loss carries."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from regard.models.contracts import AnyModel
from regard.training.distributed.ranks import ModelWeights, Ranks
from regard.training.layer_groups import LayerGroups
from regard.training.optimizer import OptimizerSettings, build_optimizer, state_names
from regard.training.step import MovingAverage, TriggeredAverage

CarriedTensors = Sequence[Mapping[str, Tensor]]
"""For each batch of a step, the tensors that the loss carries to the next step, by name."""


class TrainingState:
    """Everything that a step changes, converted to tensors of a `checkpoints.Checkpoint`
    and back.
    """

    def __init__(
        self,
        weights: ModelWeights,
        layers: LayerGroups,
        settings: OptimizerSettings,
        carried: CarriedTensors,
        ranks: Ranks,
    ) -> None:
        self.weights, self.parameters = weights, dict(weights.model.named_parameters())
        self.device = next(iter(self.parameters.values())).device
        self.optimizer = build_optimizer(weights.model, settings, layers)
        self.ema: MovingAverage | None = None
        self._carried, self._ranks = carried, ranks

    def average(self, *, decay: float, triggered: bool) -> TriggeredAverage | None:
        """Keep an average of the weights: a moving one if `decay` is not 0, or, if `triggered`, one
        that starts later, which is returned.
        """
        averaged = [self.weights.own_rows(p) for p in self.parameters.values()]
        triggered_average = TriggeredAverage(averaged) if triggered else None
        self.ema = MovingAverage(averaged, decay) if decay else triggered_average
        return triggered_average

    # -- checkpoints ------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of a checkpoint that are not sharded; complete on rank 0."""
        tensors = {} if self.weights.sharded else self._parameter_shaped()
        for name, parameter in self.parameters.items():
            state = self.optimizer.state[parameter]
            tensors |= {f"{kind}.{name}": x for kind, x in state.items() if not x.ndim}
        for number, carried in enumerate(self._carried):
            for name, tensor in carried.items():
                for rank, found in enumerate(self._ranks.gather(tensor)):
                    tensors[self._carried_key(number, rank, name)] = found
        tensors["rng.cpu"] = torch.get_rng_state()
        if self.device.type == "cuda":
            tensors["rng.cuda"] = torch.cuda.get_rng_state(self.device)
        return tensors

    def rows(self) -> dict[str, Tensor]:
        """This rank's rows of the sharded tensors; empty if none are."""
        if not self.weights.sharded:
            return {}
        tensors = self._parameter_shaped()
        return {name: self.weights.own_rows(tensor) for name, tensor in tensors.items()}

    def _parameter_shaped(self) -> dict[str, Tensor]:
        """The tensors with the shapes of parameters, which are sharded like them."""
        tensors: dict[str, Tensor] = {f"model.{name}": p for name, p in self.parameters.items()}
        if self.ema:
            pairs = zip(self.parameters, self.ema.shadow, strict=True)
            tensors |= {f"moving.{name}": shadow for name, shadow in pairs}
        for name, parameter in self.parameters.items():
            state = self.optimizer.state[parameter]
            tensors |= {f"{kind}.{name}": x for kind, x in state.items() if x.ndim}
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the tensors of a checkpoint, except what the loss carries. Raises a KeyError or a
        RuntimeError if they belong to another model.
        """
        weights = self.weights
        for number, (name, parameter) in enumerate(self.parameters.items()):
            own = weights.own_rows(parameter.detach())
            own.copy_(weights.rows_of(tensors[f"model.{name}"], parameter))
            if self.ema:  # an average that the checkpoint lacks starts from the weights
                kept = f"moving.{name}" if f"moving.{name}" in tensors else f"model.{name}"
                self.ema.shadow[number].copy_(weights.rows_of(tensors[kept], parameter))
            self._load_optimizer_state(name, parameter, tensors)
        torch.set_rng_state(tensors["rng.cpu"])
        if self.device.type == "cuda" and "rng.cuda" in tensors:
            torch.cuda.set_rng_state(tensors["rng.cuda"], self.device)

    def _load_optimizer_state(
        self, name: str, parameter: Tensor, tensors: Mapping[str, Tensor]
    ) -> None:
        """Restore the optimizer's state of a parameter: none if it has never had a gradient, or if
        another kind of optimizer has trained it so far.
        """
        weights, state = self.weights, {}
        for kind in state_names(self.optimizer, parameter):
            if (key := f"{kind}.{name}") not in tensors:
                return
            rows = weights.rows_of(tensors[key], parameter).to(self.device)
            state[kind] = weights.divided_as(parameter, rows)
        self.optimizer.state[parameter] = state

    def load_carried(self, tensors: Mapping[str, Tensor]) -> bool:
        """Restore what the loss carries. If the number of batches in a step has changed, nothing is
        restored, and the result is False.
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
        """The name that a tensor of a rank's batch `number` in a step has in a checkpoint."""
        if len(self._carried) * self._ranks.count == 1:
            return f"carried.{name}"
        return f"carried.{number * self._ranks.count + rank}.{name}"

    def averaged(self) -> AbstractContextManager[AnyModel]:
        """A context with the model under the average of its weights, if one is kept."""
        return self.weights.with_rows(None if self.ema is None else self.ema.shadow)

    def has_finite_weights(self) -> Tensor:
        """Whether all weights are finite numbers: ()."""
        own = (self.weights.own_rows(p.detach()) for p in self.parameters.values())
        sums = torch.stack([rows.sum() for rows in own])
        return sums.isfinite().all()
