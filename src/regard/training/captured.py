"""A step of training that is captured once and replayed (`kernels.graphs`).

Batches are brought to few shapes (`batching.buckets`) and copied to where the graph of their shape
reads, and what changes from step to step otherwise (the rate, the number of tokens) lies on the
device too. Where a step has one batch there is one graph for each shape, which does all of it;
where it has several, each shape's adds to the gradients and one more uses them up.

The first batch of each shape is learned from without a graph, which readies all kernels; the second
is captured, so that no graph is made for what is seen once. What is random differs in each replay:
a graph asks the device's generator anew.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from regard.batching.buckets import Buckets, Shape, fill_up
from regard.errors import TrainingError
from regard.kernels.graphs import CaptureError, Graphs, Recorder, Run, bring
from regard.training.halves import Halved
from regard.training.loss import Loss
from regard.training.step import Learning, PlainStep
from regard.types import Batch

MOST = 96
"""Shapes that are captured, the first to be seen twice: batches of others, which are rare then, are
learned from as they are."""

Note = Callable[[str], None]


def check_graphs(where: torch.device) -> None:
    """An error where a device has no graphs."""
    if where.type != "cuda":
        raise TrainingError(
            f"training.capture is for a GPU, whose graphs it replays; this is a {where.type}: "
            "leave it out"
        )


def graphs_on(where: torch.device) -> Graphs:
    """What records steps on a device, or an error where it has no graphs."""
    check_graphs(where)
    return Graphs(where)


class _Numbers:
    """What changes from step to step, where the device finds it."""

    def __init__(self, where: torch.device) -> None:
        self.share, self.rate, self.pace = (torch.zeros((), device=where) for _ in range(3))

    def set(self, tokens: int, rate: float, pace: float) -> None:
        """One over the tokens, the learning rate, how far the moving average goes."""
        self.share.fill_(1 / tokens)
        self.rate.fill_(rate)
        self.pace.fill_(pace)


class CapturedStep:
    """A step that comes to what its twin `PlainStep` comes to, without its launches.

    Where something cannot be captured, `noted` is told so once, and its twin goes on from there.
    """

    def __init__(
        self, learning: Learning, buckets: Buckets, recorder: Recorder, noted: Note
    ) -> None:
        self.learning, self.buckets, self.recorder = learning, buckets, recorder
        self.noted = noted
        model = learning.model
        # Of other families nobody knows that they use their weights in products alone.
        self.loss: Callable[[Batch], Loss] = (
            Halved(learning.loss, model) if model.packs else partial(learning.loss, model)
        )
        self.parameters = list(model.parameters())
        self.where = self.parameters[0].device
        self.numbers = _Numbers(self.where)
        self.before = torch.zeros_like(learning.totals)
        self.buffers: dict[Shape, Batch] = {}
        self.done: set[Shape | None] = set()
        self.runs: dict[Shape | None, Run] = {}
        """What is replayed for each shape; for None, what uses up gradients of several batches."""
        self.instead: PlainStep | None = None
        for group in learning.optimizer.param_groups:
            group["lr"] = self.numbers.rate
            group["capturable"] = self.where.type == "cuda"

    def __call__(self, batches: Sequence[Batch], *, rate: float, step: int) -> None:
        if self.instead is None:
            try:
                self._step(batches, rate, step)
                return
            except CaptureError as error:
                self.noted(f"steps are not captured as graphs from here on: {error}")
                self.instead = self._give_up()
        self.instead(batches, rate=rate, step=step)

    def _step(self, batches: Sequence[Batch], rate: float, step: int) -> None:
        moving, tokens = self.learning.moving, sum(batch.num_tokens for batch in batches)
        with self.recorder.apart():
            self.before.copy_(self.learning.totals)
            self.numbers.set(tokens, rate, moving.pace(step) if moving else 0.0)
            if len(batches) == 1:
                self._learn(batches[0], self._all)
                return
            self._lay_out()
            for batch in batches:
                self._learn(batch, self._add)
            self._run(None, self._use_up)

    def _lay_out(self) -> None:
        """Make gradients that stay where they are: several graphs use them."""
        for parameter in self.parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    def _give_up(self) -> PlainStep:
        """What goes on in the place of this, from before the step that failed."""
        self.runs.clear()
        self.buffers.clear()
        learning = self.learning
        learning.totals.copy_(self.before)
        learning.optimizer.zero_grad(set_to_none=True)
        for group in learning.optimizer.param_groups:
            group["capturable"] = False
        return PlainStep(learning)

    def _learn(self, batch: Batch, work: Callable[[Batch], None]) -> None:
        """Do `work` with a batch."""
        shape = self.buckets.shape(batch)
        if shape not in self.buffers and len(self.buffers) >= MOST:
            work(batch.to(self.where))
            return
        filled = fill_up(batch, shape, packed=self.buckets.packed)
        if shape in self.buffers:
            put(filled, self.buffers[shape])
        elif shape in self.done:
            self.buffers[shape] = filled.to(self.where)
        else:
            filled = filled.to(self.where)
        self._run(shape, partial(work, self.buffers.get(shape, filled)))

    def _run(self, what: Shape | None, work: Run) -> None:
        """Do it as it is for the first time, and after that as it was captured."""
        if what not in self.done:
            work()
            self.done.add(what)
            return
        if what not in self.runs:
            self.runs[what] = self.recorder.capture(work)
        self.runs[what]()

    def _all(self, batch: Batch) -> None:
        """A whole step, whose gradients nobody else needs."""
        self._add(batch)
        self._apply()
        self.learning.optimizer.zero_grad(set_to_none=True)

    def _use_up(self) -> None:
        """What a step does behind its last batch."""
        self._apply()
        self.learning.optimizer.zero_grad(set_to_none=False)

    def _add(self, batch: Batch) -> None:
        learning = self.learning
        with learning.autocast():
            loss = self.loss(batch)
        if loss.routings:
            raise CaptureError("the model has experts, whose use the host counts")
        torch.autograd.backward(loss.minimised * self.numbers.share)
        learning.totals.add_(torch.stack([loss.minimised.detach(), loss.surprise]))

    def _apply(self) -> None:
        learning = self.learning
        if learning.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, learning.clip_norm)
        learning.optimizer.step()
        if learning.moving:
            learning.moving.move(self.parameters, self.numbers.pace)


def put(batch: Batch, into: Batch) -> None:
    """Copy a batch to where another of its shape lies, without waiting for a device."""
    bring(_tensors(batch), _tensors(into))


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    return *batch.source, *batch.target, batch.places, batch.labels, batch.source_places
