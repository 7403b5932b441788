"""The training loop that peers are given: what ours does around a step, and no more."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from bench.peers.contract import PeerConfig, Trained
from regard.training.optimizer import OptimizerSettings, build_optimizer
from regard.types import AnyBatch

SMOOTHING = 0.1
"""Of labels, for everybody."""

LossFn = Callable[[AnyBatch], Tensor]
"""A batch -> its loss, the mean over its target tokens: ()."""


def wait_for_device(device: torch.device) -> None:
    """Wait until the device has finished its work; a CPU always has."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class PeerTrainer:
    """A peer's model with fused Adam, clipped gradients and, where asked for, bfloat16."""

    def __init__(self, model: nn.Module, loss: LossFn, setup: PeerConfig) -> None:
        self.model = model.train()
        self.device = torch.device(setup.device)
        self.loss = torch.compile(loss, dynamic=True) if setup.compiled else loss
        self.settings = OptimizerSettings()
        self.optimizer = build_optimizer(model, self.settings)
        self.now = setup.now
        self.half = setup.precision == "bfloat16"

    def train(self, batches: Sequence[AnyBatch]) -> Trained:
        self.step(batches[0])
        wait_for_device(self.device)
        began = self.now()
        for batch in batches[1:]:
            loss = self.step(batch)
        wait_for_device(self.device)
        seconds = self.now() - began
        return Trained(seconds, sum(batch.num_labels for batch in batches[1:]), loss.item())

    def step(self, batch: AnyBatch) -> Tensor:
        """Train on a batch; its loss (), which may still be computed on the device."""
        batch = batch.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            loss = self.loss(batch)
        torch.autograd.backward(loss)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()
