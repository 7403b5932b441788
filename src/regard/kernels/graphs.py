"""Work that is recorded once and replayed: a GPU then does not wait for the host.

A step of training or of a search is some hundreds or thousands of kernels, and to start them takes
the host longer than many a model takes to run them. A CUDA graph starts them all at once. It holds
shapes and addresses fixed: what it is to work with is brought to where it reads (`bring`).
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from threading import Lock
from typing import Any, Protocol
from weakref import WeakSet

import torch
from torch import Tensor

Run = Callable[[], None]

_capturing = Lock()
"""A process can have one capture under way: other threads wait."""


class CaptureError(Exception):
    """What could not be captured, and why; none of it was done."""


class Recorder(Protocol):
    """Whoever can do again what was done once."""

    def apart(self) -> AbstractContextManager[Any]:
        """Within it, all work is done in the order in which it was asked for."""
        ...

    def capture(self, work: Run) -> Run:
        """What does `work` again with whatever lies in its tensors then; it is not done now.

        A CaptureError where it cannot be done again.
        """
        ...

    def in_use(self) -> int:
        """Bytes of the device's memory that are in use."""
        ...


class Again:
    """The plain twin of `Graphs`: does the work again, on any device."""

    def apart(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def capture(self, work: Run) -> Run:
        return work

    def in_use(self) -> int:
        return 0


class Graphs:
    """CUDA graphs that share their memory: they are replayed one after another."""

    def __init__(self, where: torch.device) -> None:
        self.stream = torch.cuda.Stream(where)  # type: ignore[no-untyped-call]
        self.living: WeakSet[torch.cuda.CUDAGraph] = WeakSet()

    def apart(self) -> AbstractContextManager[Any]:
        return _Aside(self.stream)

    def capture(self, work: Run) -> Run:
        graph = torch.cuda.CUDAGraph()
        pool = next((one.pool() for one in self.living), None)  # with the last one it goes
        how: Any = {"pool": pool, "stream": self.stream, "capture_error_mode": "thread_local"}
        try:
            with _capturing, torch.cuda.graph(graph, **how):
                work()
        except RuntimeError as error:  # torch's own errors, those of memory among them
            _recover(self.stream.device)
            raise CaptureError(str(error).split("\n", 1)[0]) from error
        self.living.add(graph)
        replay: Run = graph.replay
        return replay

    def in_use(self) -> int:
        return torch.cuda.memory_allocated(self.stream.device)


def _recover(where: torch.device) -> None:
    """Give a device a fresh generator: the old one believes itself in a graph that has failed."""
    number = torch.cuda.current_device() if where.index is None else where.index
    generator = torch.cuda.default_generators[number]
    with suppress(RuntimeError):  # what is to be told is why the graph failed
        torch.cuda.synchronize(where)
        generator.graphsafe_set_state(generator.clone_state())


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


def bring(tensors: Sequence[Tensor], into: Sequence[Tensor]) -> None:
    """Copy tensors to where others of their shapes lie, without waiting for a device."""
    for one, other in zip(tensors, into, strict=True):
        if one.numel():
            other.copy_(one.pin_memory() if other.is_cuda else one, non_blocking=True)
