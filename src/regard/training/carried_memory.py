"""The loss of a text that goes on from batch to batch: truncated backpropagation through time."""

from collections.abc import Mapping
from dataclasses import fields

import torch
from torch import Tensor

from regard.models.contracts import AnyModel, AnyStatefulGenerator
from regard.training.loss import Loss, batch_loss
from regard.types import AnyBatch, Features


class CarriedMemoryLoss:
    """The loss of batches whose rows continue those of the batch before.

    The model begins with the memory behind the batch before, through which no gradient flows. The
    memory is kept in the same tensors always, so that CUDA graphs can change it.
    """

    def __init__(
        self, model: AnyStatefulGenerator, rows: int, *, length: int, smoothing: float
    ) -> None:
        """For batches of `rows` rows; one of more or fewer positions than `length` counts by as
        much more or less than one of `length` (Merity et al. 2018, section 5).
        """
        self.model, self.length, self.smoothing = model, length, smoothing
        self.memory = model.blank_memory(rows)

    @property
    def carried(self) -> Mapping[str, Tensor]:
        """The tensors of the memory, by name, which a checkpoint needs."""
        return {field.name: getattr(self.memory, field.name) for field in fields(self.memory)}

    def __call__(self, model: AnyModel, batch: AnyBatch) -> Loss:
        loss = batch_loss(model, batch, self.smoothing, training_features=self._features)
        share = batch.decoder_input.ids.shape[1] / self.length
        return loss._replace(loss=loss.loss * share)

    def _features(self, batch: AnyBatch) -> Features:
        before = self.memory.map(torch.clone)
        decoded, after = self.model.read_on(batch.decoder_input, before)
        for old, new in zip(self.memory.tensors(), after.tensors(), strict=True):
            old.copy_(new.detach())
        features = decoded.features.flatten(0, 1)  # (B, T, D) -> (M, D)
        return decoded._replace(features=features)
