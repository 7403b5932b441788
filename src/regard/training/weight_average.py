"""Several sets of weights -> one."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import RunError
from regard.training.checkpoints import load_weights


def average_weights(paths: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of the weights in several files, taken in float64."""
    if not paths:
        raise RunError("averaging needs at least one file of weights, got none")
    first = load_weights(paths[0])
    total = {name: tensor.double() for name, tensor in first.items()}
    for path in paths[1:]:
        other = load_weights(path)
        if {n: t.shape for n, t in other.items()} != {n: t.shape for n, t in first.items()}:
            raise RunError(f"{path}: its weights have other names or shapes than {paths[0]}")
        for name, tensor in other.items():
            total[name] += tensor
    return {name: (total[name] / len(paths)).to(first[name].dtype) for name in first}


class MovingAverage:
    """An exponential moving average of a model's parameters, in float32 or wider."""

    def __init__(self, parameters: Sequence[Tensor], decay: float) -> None:
        self.decay = decay
        self.shadow = [p.detach().clone() for p in parameters]

    def ema_weight(self, step: int) -> float:
        """How far to move at a step: faster in the first ones, so that the start is forgotten."""
        return 1 - min(self.decay, (1 + step) / (10 + step))

    def update(self, parameters: Sequence[Tensor], step: int) -> None:
        """Move towards `parameters`."""
        with torch.no_grad():
            torch._foreach_lerp_(self.shadow, list(parameters), self.ema_weight(step))

    def update_by_device_weight(self, parameters: Sequence[Tensor], ema_weight: Tensor) -> None:
        """`update` by a `pace` () that only the device knows."""
        with torch.no_grad():
            differences = torch._foreach_sub(list(parameters), self.shadow)
            torch._foreach_mul_(differences, ema_weight)
            torch._foreach_add_(self.shadow, differences)
