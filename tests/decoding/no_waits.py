"""A mode in which nothing may make the host wait for a GPU."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class NoWaits(TorchDispatchMode):
    """Fails on operations that make the host wait for a GPU, except in allowed methods."""

    ASKED = ("_local_scalar_dense", "nonzero", "is_nonzero", "masked_select", "item", "equal")

    def __init__(self):
        super().__init__()
        self.reads, self.seen = False, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        self.seen += 1
        if not self.reads:
            assert name not in self.ASKED, name
            indices = args[1] if name == "index" else ()
            assert all(x is None or x.dtype == torch.long for x in indices), "a mask as an index"
        return func(*args, **(kwargs or {}))

    def allow(self, patch, cls, name):
        """Allow a method to read from the device."""
        method = getattr(cls, name)

        def reading(*args):
            self.reads = True
            try:
                return method(*args)
            finally:
                self.reads = False

        patch.setattr(cls, name, reading)
