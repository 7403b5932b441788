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

Replay = Callable[[], None]

_capture_lock = Lock()
"""A process can have one capture under way: other threads wait."""


class CaptureError(Exception):
    """What could not be captured, and why; none of it was done."""


class GraphCapturer(Protocol):
    """Whoever can do again what was done once."""

    def side_stream(self) -> AbstractContextManager[Any]:
        """Within it, all work is done in the order in which it was asked for."""
        ...

    def capture(self, work: Replay) -> Replay:
        """What does `work` again with whatever lies in its tensors then; it is not done now.

        A CaptureError where it cannot be done again.
        """
        ...

    def memory_in_use(self) -> int:
        """Bytes of the device's memory that are in use."""
        ...


class EagerReplay:
    """The plain twin of `Graphs`: does the work again, on any device."""

    def side_stream(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def capture(self, work: Replay) -> Replay:
        return work

    def memory_in_use(self) -> int:
        return 0


class CudaGraphs:
    """CUDA graphs that share their memory: they are replayed one after another."""

    def __init__(self, where: torch.device) -> None:
        self.stream = torch.cuda.Stream(where)  # type: ignore[no-untyped-call]
        self.live_graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()

    def side_stream(self) -> AbstractContextManager[Any]:
        return _SideStream(self.stream)

    def capture(self, work: Replay) -> Replay:
        graph = torch.cuda.CUDAGraph()
        pool = next((one.pool() for one in self.live_graphs), None)  # with the last one it goes
        options: Any = {"pool": pool, "stream": self.stream, "capture_error_mode": "thread_local"}
        try:
            with _capture_lock, torch.cuda.graph(graph, **options):
                work()
        except RuntimeError as error:  # torch's own errors, those of memory among them
            _reset_generator(self.stream.device)
            raise CaptureError(str(error).split("\n", 1)[0]) from error
        self.live_graphs.add(graph)
        replay: Replay = graph.replay
        return replay

    def memory_in_use(self) -> int:
        return torch.cuda.memory_allocated(self.stream.device)


def _reset_generator(where: torch.device) -> None:
    """Give a device a fresh generator: the old one believes itself in a graph that has failed."""
    number = torch.cuda.current_device() if where.index is None else where.index
    generator = torch.cuda.default_generators[number]
    with suppress(RuntimeError):  # what is to be told is why the graph failed
        torch.cuda.synchronize(where)
        generator.graphsafe_set_state(generator.clone_state())


class _SideStream:
    """On a stream of its own, after all that went before and before all that follows."""

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self.stream, self.inner = stream, torch.cuda.stream(stream)

    def __enter__(self) -> None:
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        self.inner.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *exc_info: Any) -> None:
        self.inner.__exit__(*exc_info)
        torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)


def copy_to_static(tensors: Sequence[Tensor], into: Sequence[Tensor]) -> None:
    """Copy tensors to where others of their shapes lie, without waiting for a device."""
    for one, other in zip(tensors, into, strict=True):
        if one.numel():
            other.copy_(one.pin_memory() if other.is_cuda else one, non_blocking=True)
