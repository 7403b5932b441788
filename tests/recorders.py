"""Stand-ins for CUDA graphs that work on any device."""

from contextlib import nullcontext

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from regard.kernels.cuda_graphs import CaptureError


class EagerReplay:
    """Replays work by calling it again."""

    def side_stream(self):
        return nullcontext()

    def capture(self, work):
        return work

    def memory_in_use(self):
        return 0


class Counted(EagerReplay):
    """Counts captures and replays."""

    def __init__(self, until=float("inf")):
        """After `until` captures, further ones fail."""
        self.captured, self.replayed, self.until = 0, 0, until

    def capture(self, work):
        if self.captured >= self.until:
            raise CaptureError("the device says no")
        self.captured += 1

        def again():
            self.replayed += 1
            work()

        return again


class Tape(Counted):
    """Replays operations on the memory of the captured tensors, as a graph does, and no Python.

    Unlike a graph it runs them while it records, and then restores the tensors that they changed.
    """

    def capture(self, work):
        recording = _Recording()
        with recording:
            work()
        recording.restore()
        return super().capture(recording.replay)


class _Recording(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.operations = []
        self.before = {}  # by their memory, tensors from outside that were changed, and copies

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.is_mutable and not self._made_here(args[0]):
            self.before.setdefault(_address(args[0]), (args[0], args[0].clone()))
        result = func(*args, **(kwargs or {}))
        inputs = {_address(x) for x in _tensors((args, kwargs))}
        outputs = _tensors(result)
        is_new = [_address(x) not in inputs for x in outputs]
        if func._schema.is_mutable or any(is_new):  # others return views of their inputs
            self.operations.append((func, args, kwargs or {}, outputs, is_new))
        return result

    def _made_here(self, x):
        return any(
            new and _address(x) == _address(old)
            for *_, outputs, is_new in self.operations
            for old, new in zip(outputs, is_new, strict=True)
        )

    def restore(self):
        for x, old in self.before.values():
            x.copy_(old)

    def replay(self):
        for func, args, kwargs, outputs, is_new in self.operations:
            again = _tensors(func(*args, **kwargs))
            for old, value, new in zip(outputs, again, is_new, strict=True):
                if new:
                    old.copy_(value)


def _tensors(tree):
    return [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _address(x):
    return x.untyped_storage().data_ptr()
