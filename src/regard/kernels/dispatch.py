"""Whether there are kernels for a tensor."""

import importlib.util
import os
from functools import cache

import torch
from torch import Tensor

HALF_DTYPES = (torch.bfloat16, torch.float16)
disabled: set[str] = set()
"""Kernels not to be used, for measuring: of `attention`, `norm`, `bend`, `linear`, `loss`,
`glance`, `choice` and `onward`."""


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


def use_kernel(kernel: str, x: Tensor) -> bool:
    """Whether `kernel` is what training should use for `x`: in half precision, which it is for."""
    half = x.dtype in HALF_DTYPES or interpreted()
    return half and kernel not in disabled and runs_on(x)


def use_inference_kernel(kernel: str, x: Tensor) -> bool:
    """Whether `kernel` is what a model that does not learn should use for `x`, in any precision.

    Float64, which is for proofs, has the formula, and so has what torch is to choose a precision
    for.
    """
    if kernel in disabled or x.dtype == torch.float64 or not (x.is_cuda or interpreted()):
        return False
    return not torch.is_grad_enabled() and not torch.is_autocast_enabled(x.device.type)
