"""Recorders that tell what was asked of them, or are as blind as a graph on any device."""

from contextlib import nullcontext

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.kernels.cuda_graphs import CaptureError


class EagerReplay:
    """Stands in for CudaGraphs on any device: replays work by doing it again."""

    def side_stream(self):
        return nullcontext()

    def capture(self, work):
        return work

    def memory_in_use(self):
        return 0


class Counted(EagerReplay):
    """Counts what was captured and what was done again."""

    def __init__(self, until=float("inf")):
        self.captured, self.replayed = 0, 0
        self.until = until  # from so many on, it fails

    def capture(self, work):
        if self.captured >= self.until:
            raise CaptureError("the device says no")
        self.captured += 1

        def again():
            self.replayed += 1
            work()

        return again


class Tape(Counted):
    """Does operations again where their tensors lie, as a graph does, and no Python between them.

    Unlike a graph it has them done while it records, and then puts back what they changed.
    """

    def capture(self, work):
        reel = _Reel()
        with reel:
            work()
        reel.put_back()
        return super().capture(reel.play)


class _Reel(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.done = []
        self.before = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.is_mutable and not self._made_here(args[0]):
            self.before.setdefault(_place(args[0]), (args[0], args[0].clone()))
        found = func(*args, **(kwargs or {}))
        given = {_place(x) for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        made = [x for x in tree_leaves(found) if isinstance(x, torch.Tensor)]
        own = [_place(x) not in given for x in made]
        if func._schema.is_mutable or any(own):  # all else is another view of what is there
            self.done.append((func, args, kwargs or {}, made, own))
        return found

    def _made_here(self, x):
        return any(_place(x) == _place(old) for *_, made, own in self.done for old in made if own)

    def put_back(self):
        for x, old in self.before.values():
            x.copy_(old)

    def play(self):
        for func, args, kwargs, made, own in self.done:
            again = [x for x in tree_leaves(func(*args, **kwargs)) if isinstance(x, torch.Tensor)]
            for old, new, mine in zip(made, again, own, strict=True):
                if mine:
                    old.copy_(new)


def _place(x):
    return x.untyped_storage().data_ptr()
