"""CUDA graphs: work is captured once and replayed, so that the GPU does not wait for the host.

Shapes and addresses are fixed: inputs are copied to static tensors (`copy_to_static`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from threading import Lock
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

Replay = Callable[[], None]

_capture_lock = Lock()  # a process can have one capture at a time


class CaptureError(Exception):
    """Some work could not be captured, and has not been run."""


class CudaGraphs:
    """Captures work as CUDA graphs, which share their memory: they are replayed one at a time."""

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self.live_graphs: WeakSet[torch.cuda.CUDAGraph] = WeakSet()

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        """A context on a separate stream, ordered after earlier and before later work."""
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        try:
            with torch.cuda.stream(self.stream):
                yield
        finally:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    def capture(self, work: Replay) -> Replay:
        """A function that replays `work`; capturing does not run it. Raises a CaptureError."""
        graph = torch.cuda.CUDAGraph()
        # The memory pool is freed with the last graph that uses it.
        pool = next((graph.pool() for graph in self.live_graphs), None)
        options: Any = {"pool": pool, "stream": self.stream, "capture_error_mode": "thread_local"}
        try:
            with _capture_lock, torch.cuda.graph(graph, **options):
                work()
        except RuntimeError as error:  # torch's own errors, out of memory among them
            _reset_generator(self.stream.device)
            raise CaptureError(str(error).split("\n", 1)[0]) from error
        self.live_graphs.add(graph)
        replay: Replay = graph.replay
        return replay

    def memory_in_use(self) -> int:
        """Bytes of the device's memory that are in use."""
        return torch.cuda.memory_allocated(self.stream.device)


def _reset_generator(device: torch.device) -> None:
    """Give a device a fresh generator: after a failed capture the old one is still capturing."""
    number = torch.cuda.current_device() if device.index is None else device.index
    generator = torch.cuda.default_generators[number]
    with suppress(RuntimeError):  # the error to report is that of the capture
        torch.cuda.synchronize(device)
        generator.graphsafe_set_state(generator.clone_state())


def copy_to_static(tensors: Sequence[Tensor], static: Sequence[Tensor]) -> None:
    """Copy tensors to static ones of the same shapes, without waiting for the device."""
    for tensor, to in zip(tensors, static, strict=True):
        if tensor.numel():
            to.copy_(tensor.pin_memory() if to.is_cuda else tensor, non_blocking=True)
