"""Numbers between the host and the device of a search, for which neither waits."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, device


class AsyncCopy(NamedTuple):
    """Numbers on their way to the host."""

    tensors: tuple[Tensor, ...]
    event: torch.cuda.Event | None  # none: they are there

    def wait(self) -> tuple[Tensor, ...]:
        """What was posted, as soon as it is there."""
        if self.event is not None:
            self.event.synchronize()
        return self.tensors


def async_to_host(*tensors: Tensor) -> AsyncCopy:
    """A letter to the host; a GPU sends it when it comes to that, and nobody waits."""
    where = tensors[0].device
    if where.type != "cuda":
        return AsyncCopy(tuple(x.cpu() for x in tensors), None)
    copies = tuple(x.to("cpu", non_blocking=True) for x in tensors)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(where))
    return AsyncCopy(copies, event)


class LaggedReader:
    """What a device tells its host at each step, heard `late` by some steps."""

    def __init__(self, lag: int) -> None:
        self._lag, self._copies = lag, deque[AsyncCopy]()

    def poll(self, now: Tensor) -> Tensor | None:
        """What was told so many steps ago, None: nothing was; what is so `now` is told in turn."""
        self._copies.append(async_to_host(now))
        if len(self._copies) <= self._lag:
            return None
        (copied,) = self._copies.popleft().wait()
        return copied


def async_to_device(
    values: Sequence[int], where: device, dtype: torch.dtype = torch.long
) -> Tensor:
    """Some `values` (n,) on a device; from memory that a GPU reads by itself."""
    on_host = torch.tensor(values, dtype=dtype)
    if where.type == "cuda":
        on_host = on_host.pin_memory()
    return on_host.to(where, non_blocking=True)


def is_on_cpu(x: Tensor) -> bool:
    """Whether a question about `x` is answered at once, rather than after all work before it."""
    return x.device.type == "cpu"


def host_lag(where: device) -> int:
    """Steps by which the host is behind in what it knows of a search on that device.

    On a GPU one, so that the next step is prepared while this one runs. More would gain nothing,
    and cost as many steps at the end.
    """
    return 1 if where.type == "cuda" else 0
