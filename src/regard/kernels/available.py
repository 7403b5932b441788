"""Whether there are kernels for a tensor."""

import importlib.util
import os
from functools import cache

from torch import Tensor


@cache
def have_triton() -> bool:
    """Whether triton can be imported; nothing is."""
    return importlib.util.find_spec("triton") is not None


def interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels, on a CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def runs_on(x: Tensor) -> bool:
    """Whether Triton kernels can run where `x` is."""
    return (x.is_cuda or interpreted()) and have_triton()
