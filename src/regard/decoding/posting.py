"""Numbers between the host and the device of a search, for which neither waits."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, device


class Letter(NamedTuple):
    """Numbers on their way to the host."""

    tensors: tuple[Tensor, ...]
    arrival: torch.cuda.Event | None  # none: they are there

    def open(self) -> tuple[Tensor, ...]:
        """What was posted, as soon as it is there."""
        if self.arrival is not None:
            self.arrival.synchronize()
        return self.tensors


def post(*tensors: Tensor) -> Letter:
    """A letter to the host; a GPU sends it when it comes to that, and nobody waits."""
    where = tensors[0].device
    if where.type != "cuda":
        return Letter(tuple(x.cpu() for x in tensors), None)
    sent = tuple(x.to("cpu", non_blocking=True) for x in tensors)
    arrival = torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrival.record(torch.cuda.current_stream(where))
    return Letter(sent, arrival)


class Reports:
    """What a device tells its host at each step, heard `late` by some steps."""

    def __init__(self, late: int) -> None:
        self._late, self._letters = late, deque[Letter]()

    def hear(self, now: Tensor) -> Tensor | None:
        """What was told so many steps ago, None: nothing was; what is so `now` is told in turn."""
        self._letters.append(post(now))
        if len(self._letters) <= self._late:
            return None
        (told,) = self._letters.popleft().open()
        return told


def send(values: Sequence[int], where: device, dtype: torch.dtype = torch.long) -> Tensor:
    """Some `values` (n,) on a device; from memory that a GPU reads by itself."""
    here = torch.tensor(values, dtype=dtype)
    if where.type == "cuda":
        here = here.pin_memory()
    return here.to(where, non_blocking=True)


def is_near(x: Tensor) -> bool:
    """Whether a question about `x` is answered at once, rather than after all work before it."""
    return x.device.type == "cpu"


def lateness(where: device) -> int:
    """Steps by which the host is behind in what it knows of a search on that device.

    On a GPU one, so that the next step is prepared while this one runs. More would gain nothing,
    and cost as many steps at the end.
    """
    return 1 if where.type == "cuda" else 0
