"""A step of training that is captured once and replayed: for models too small to keep a GPU busy.

The steps of a small model take as long as it takes to start their kernels, some thousands of them.
A CUDA graph starts them all at once. It holds shapes and addresses fixed: batches are brought to
few shapes (`batching.buckets`) and copied to where the graph of their shape reads, and what changes
from step to step otherwise (the rate, the number of tokens) lies on the device too. There is one
graph for each shape, which adds to the gradients, and one that uses them up.

The first batch of each shape is learned from without a graph, which readies all kernels; the second
is captured. What is random differs in each replay: a graph asks the device's generator anew.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor

from regard.batching.buckets import Buckets, Shape, fill_up
from regard.errors import TrainingError
from regard.training.step import Learning
from regard.types import Batch

Run = Callable[[], None]


class Recorder(Protocol):
    """Whoever can do again what was done once."""

    def apart(self) -> AbstractContextManager[Any]:
        """Within it, all work is done in the order in which it was asked for."""
        ...

    def capture(self, work: Run) -> Run:
        """What does `work` again with whatever lies in its tensors then; it is not done now."""
        ...


class Again:
    """The plain twin of `Graphs`: does the work again, on any device."""

    def apart(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def capture(self, work: Run) -> Run:
        return work


class Graphs:
    """CUDA graphs that share their memory: they are replayed one after another."""

    def __init__(self, where: torch.device) -> None:
        self.stream = torch.cuda.Stream(where)  # type: ignore[no-untyped-call]
        self.pool: Any = None

    def apart(self) -> AbstractContextManager[Any]:
        return _Aside(self.stream)

    def capture(self, work: Run) -> Run:
        graph = torch.cuda.CUDAGraph()
        how = {"pool": self.pool, "stream": self.stream, "capture_error_mode": "thread_local"}
        with torch.cuda.graph(graph, **how):
            work()
        self.pool = graph.pool()
        replay: Run = graph.replay
        return replay


class _Aside:
    """On a stream of its own, after all that went before and before all that follows."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.stream, self.inner = stream, torch.cuda.stream(stream)

    def __enter__(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        self.inner.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *why: Any) -> None:
        self.inner.__exit__(*why)
        torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)


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

    Gradients stay where they are between steps.
    """

    def __init__(self, learning: Learning, buckets: Buckets, recorder: Recorder) -> None:
        self.learning, self.buckets, self.recorder = learning, buckets, recorder
        self.parameters = list(learning.model.parameters())
        self.where = self.parameters[0].device
        self.numbers = _Numbers(self.where)
        self.buffers: dict[Shape, Batch] = {}
        self.runs: dict[Shape, Run] = {}
        self.update: Run | None = None
        self.warm = False
        for parameter in self.parameters:
            parameter.grad = torch.zeros_like(parameter)
        for group in learning.optimizer.param_groups:
            group["lr"] = self.numbers.rate
            group["capturable"] = self.where.type == "cuda"

    def __call__(self, batches: Sequence[Batch], *, rate: float, step: int) -> None:
        moving, tokens = self.learning.moving, sum(batch.num_tokens for batch in batches)
        with self.recorder.apart():
            self.numbers.set(tokens, rate, moving.pace(step) if moving else 0.0)
            for batch in batches:
                self._learn(batch)
            self._finish()

    def _learn(self, batch: Batch) -> None:
        """Add the gradients of a batch."""
        shape = self.buckets.shape(batch)
        if shape is None:
            self._add(batch.to(self.where))
            return
        filled = fill_up(batch, shape)
        if shape not in self.buffers:
            self.buffers[shape] = filled.to(self.where)
            self._add(self.buffers[shape])
            return
        put(filled, self.buffers[shape])
        if shape not in self.runs:
            self.runs[shape] = self.recorder.capture(lambda: self._add(self.buffers[shape]))
        self.runs[shape]()

    def _finish(self) -> None:
        """Use the gradients up."""
        if not self.warm:
            self._apply()
            self.warm = True
            return
        if self.update is None:
            self.update = self.recorder.capture(self._apply)
        self.update()

    def _add(self, batch: Batch) -> None:
        learning = self.learning
        with learning.autocast():
            loss = learning.loss(learning.model, batch)
        if loss.routings:
            raise TrainingError(
                "training.capture is not for models with experts, whose use the host counts; "
                "leave it out"
            )
        torch.autograd.backward(loss.minimised * self.numbers.share)
        learning.totals.add_(torch.stack([loss.minimised.detach(), loss.surprise]))

    def _apply(self) -> None:
        learning = self.learning
        if learning.clip_norm:
            torch.nn.utils.clip_grad_norm_(self.parameters, learning.clip_norm)
        learning.optimizer.step()
        learning.optimizer.zero_grad(set_to_none=False)
        if learning.moving:
            learning.moving.move(self.parameters, self.numbers.pace)


def put(batch: Batch, into: Batch) -> None:
    """Copy a batch to where another of its shape lies, without waiting for a device."""
    for one, other in zip(_tensors(batch), _tensors(into), strict=True):
        other.copy_(one.pin_memory() if other.is_cuda else one, non_blocking=True)


def _tensors(batch: Batch) -> tuple[Tensor, ...]:
    return *batch.source, *batch.target, batch.places, batch.labels, batch.source_places
