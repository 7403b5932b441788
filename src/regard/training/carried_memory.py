"""The loss of a text that continues from batch to batch: truncated backpropagation in time."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import cycle

import torch
from torch import Tensor

from regard.models.contracts import AnyModel, AnyStatefulGenerator
from regard.training.loss import Loss, batch_loss
from regard.types import AnyBatch, Features


class CarriedMemoryLoss:
    """The loss of batches whose rows continue those of an earlier batch.

    The model starts from its memory after that batch, through which no gradient flows. The memory
    stays in the same tensors, so that CUDA graphs can update it.
    """

    def __init__(
        self,
        model: AnyStatefulGenerator,
        rows: int,
        *,
        length: int,
        smoothing: float,
        lanes: int = 1,
    ) -> None:
        """Set up for batches of `rows` rows, each of which continues the batch `lanes` before it.
        The loss is scaled by the number of positions divided by `length` (Merity et al. 2018,
        section 5).
        """
        self.model, self.length, self.smoothing = model, length, smoothing
        self.memories = [model.blank_memory(rows) for _ in range(lanes)]
        self._turns = cycle(self.memories)

    @property
    def carried(self) -> Sequence[Mapping[str, Tensor]]:
        """The tensors of each lane's memory by name, for checkpoints."""
        return [
            {field.name: getattr(memory, field.name) for field in fields(memory)}
            for memory in self.memories
        ]

    def __call__(self, model: AnyModel, batch: AnyBatch) -> Loss:
        loss = batch_loss(model, batch, self.smoothing, training_features=self._features)
        share = batch.decoder_input.ids.shape[1] / self.length
        return loss._replace(loss=loss.loss * share)

    def _features(self, batch: AnyBatch) -> Features:
        memory = next(self._turns)
        before = memory.map(torch.clone)
        decoded, after = self.model.read_on(batch.decoder_input, before)
        for old, new in zip(memory.tensors(), after.tensors(), strict=True):
            old.copy_(new.detach())
        features = decoded.features.flatten(0, 1)  # (B, T, D) -> (M, D)
        return decoded._replace(features=features)
