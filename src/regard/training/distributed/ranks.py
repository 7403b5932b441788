"""The processes of one training, each with its own device, as the loop uses them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor

from regard.batching.sampler import Shard
from regard.models.contracts import AnyModel
from regard.training.loss import LossFn

T = TypeVar("T")
JsonT = TypeVar("JsonT")


class ModelWeights:
    """The weights of a model and its loss. Every rank has all of them."""

    sharded = False  # whether each rank has some rows of each weight

    def __init__(self, model: AnyModel, loss: LossFn) -> None:
        self.model, self.loss = model, loss

    def own_rows(self, tensor: Tensor) -> Tensor:
        """The rows that this rank holds of a tensor of the model or the optimizer."""
        return tensor

    def rows_of(self, full: Tensor, like: Tensor) -> Tensor:
        """This rank's rows of a whole tensor, if it is sharded like `like`."""
        return full

    def divided_as(self, like: Tensor, own: Tensor) -> Tensor:
        """The tensor, sharded like `like`, of which `own` are this rank's rows."""
        return own

    def with_rows(self, own: Sequence[Tensor] | None) -> AbstractContextManager[AnyModel]:
        """A context with the model under other weights: `own` are this rank's rows of them, in the
        order of parameters; None: its own weights. All ranks enter it, but only rank 0 uses the
        model.
        """
        return nullcontext(self.model) if own is None else self.with_weights(own)

    @contextmanager
    def with_weights(self, full: Sequence[Tensor]) -> Iterator[AnyModel]:
        """A context with the model under other weights, for rank 0 only."""
        parameters = list(self.model.parameters())
        before = [parameter.detach().clone() for parameter in parameters]
        copy_weights(parameters, full)
        try:
            yield self.model
        finally:
            copy_weights(parameters, before)


def copy_weights(parameters: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Copy values into parameters, in place."""
    with torch.no_grad():
        for parameter, value in zip(parameters, values, strict=True):
            parameter.copy_(value)


class Ranks:
    """The processes of a training. This base class is a single process, which exchanges nothing."""

    number, count = 0, 1

    @property
    def leads(self) -> bool:
        """Whether this is rank 0, the only one that logs, validates and writes."""
        return self.number == 0

    @property
    def part(self) -> Shard:
        """The part of the batches that this rank trains on."""
        return Shard(self.number, self.count)

    def gather_numbers(self, numbers: Sequence[int]) -> list[list[int]]:
        """The numbers of every rank; all ranks give the same count."""
        return [list(numbers)]

    def any(self, claim: bool) -> bool:
        """Whether a claim holds on some rank."""
        return any(claims[0] for claims in self.gather_numbers([claim]))

    def from_first(self, make: Callable[[], JsonT]) -> JsonT:
        """What `make`, called on rank 0 alone, returns there; the others wait for it. It must be a
        JSON value.
        """
        return make()

    def made_by_first(self, make: Callable[[], T], read: Callable[[], T]) -> T:
        """What rank 0 makes with `make`, in files, and the others then get with `read`."""
        return make()

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Sum each of some tensors over all ranks, in place."""

    def broadcast_(self, tensors: Sequence[Tensor]) -> None:
        """Give all ranks the tensors of rank 0, in place."""

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """On rank 0, the tensors of all ranks, which have the same shape; elsewhere only this
        rank's own.
        """
        return [tensor]

    def sum_gradients(self, parameters: Sequence[Tensor], *, in_place: bool = False) -> None:
        """Sum the gradients of the trained parameters over all ranks. The parameters get other
        tensors as gradients, unless the sums are written `in_place`.
        """

    def shard(self, model: AnyModel, loss: LossFn) -> ModelWeights:
        """Divide the weights of a model among the ranks."""
        return ModelWeights(model, loss)


ALONE = Ranks()
