"""Weights that are sharded over the ranks: FSDP2 (`fully_shard`; Zhao et al. 2023).

A parameter is divided by rows, as by `torch.chunk`; its gradient, its average and its optimizer
state are divided in the same way. A layer's weights are gathered when it is computed.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from regard.errors import SettingsError
from regard.models.contracts import AnyModel
from regard.training.distributed.ranks import ModelWeights, copy_weights
from regard.training.loss import Loss, LossFn, LossModule
from regard.types import AnyBatch


class ShardedWeights(ModelWeights):
    """Weights that are divided among all ranks. Rank 0 also has a whole model on its host, to be
    scored and saved.
    """

    sharded = True

    def __init__(self, model: AnyModel, loss: LossFn) -> None:
        """Shard `model`, in place."""
        for name, parameter in model.named_parameters():
            if not parameter.ndim:
                raise SettingsError(
                    f"training.sharded: {name} is a single number, which has no rows to divide: "
                    f"train {type(model).__name__} with sharded: false"
                )
        self._device = next(model.parameters()).device
        self._whole = deepcopy(model).cpu() if dist.get_rank() == 0 else None
        module = LossModule(loss, model)
        mesh = init_device_mesh(self._device.type, (dist.get_world_size(),))
        for layer in model.sharded_layers():
            fully_shard(layer, mesh=mesh)
        fully_shard(module, mesh=mesh)
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.set_gradient_divide_factor(1.0)  # gradients are summed, like those of batches,
                part.set_force_sum_reduction_for_comms(True)  # by what gloo has in float32, too

        def sharded_loss(_: AnyModel, batch: AnyBatch) -> Loss:
            result: Loss = module(batch)
            return result

        super().__init__(model, sharded_loss)

    def own_rows(self, tensor: Tensor) -> Tensor:
        return tensor.to_local() if isinstance(tensor, DTensor) else tensor

    def rows_of(self, full: Tensor, like: Tensor) -> Tensor:
        if not isinstance(like, DTensor) or not full.ndim:
            return full
        parts = torch.chunk(full, like.device_mesh.size())
        number = like.device_mesh.get_local_rank()
        return parts[number] if number < len(parts) else full[:0]

    def divided_as(self, like: Tensor, own: Tensor) -> Tensor:
        return _divided_as(like, own) if isinstance(like, DTensor) and own.ndim else own

    @contextmanager
    def with_rows(self, own: Sequence[Tensor] | None) -> Iterator[AnyModel]:
        parameters = list(self.model.parameters())
        rows = [self.own_rows(one) for one in parameters] if own is None else own
        whole = None if self._whole is None else list(self._whole.parameters())
        with torch.no_grad():
            for number, (parameter, some) in enumerate(zip(parameters, rows, strict=True)):
                assert isinstance(parameter, DTensor)
                full = _divided_as(parameter, some.detach()).full_tensor()
                if whole is not None:
                    whole[number].copy_(full)
        with self._on_device() as model:
            yield model

    @contextmanager
    def with_weights(self, full: Sequence[Tensor]) -> Iterator[AnyModel]:
        assert self._whole is not None
        copy_weights(list(self._whole.parameters()), full)
        with self._on_device() as model:
            yield model

    @contextmanager
    def _on_device(self) -> Iterator[AnyModel]:
        """A context in which the whole model is on rank 0's device; afterwards it is on the host
        again.
        """
        if self._whole is None:
            yield self.model
            return
        try:
            yield self._whole.to(self._device)
        finally:
            self._whole.cpu()


def _divided_as(like: DTensor, own: Tensor) -> DTensor:
    return DTensor.from_local(
        own,
        like.device_mesh,
        like.placements,
        run_check=False,
        shape=like.shape,
        stride=like.stride(),
    )
