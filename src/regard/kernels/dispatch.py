"""Decides whether a kernel applies to a tensor, and holds what every launch needs."""

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

HALF_DTYPES = (torch.bfloat16, torch.float16)
FLOAT_DTYPES = (torch.float32, *HALF_DTYPES)
MIN_TILE = 16
"""The smallest side of a tile that tensor cores multiply."""
MAX_NORM_WIDTH = 8192
"""The widest row that one program of add_norm can hold."""
MAX_QUERIES, MAX_QUERIES_FLOAT32 = 64, 16
"""The largest head width of decode_attention; in float32, more would not fit into registers."""
MAX_DECODE_HEAD_WIDTH = 128
VARLEN_HEAD_WIDTHS = (16, 128)
"""The narrowest and the widest head that there are tiles for."""
MAX_WINDOW_PLACES = 64
"""Of window_attention, whose tiles hold a whole window; its heads are as wide as the above."""
MAX_CANDIDATES = 256
"""Of beam_update, for continuations and for finished hypotheses of a sentence."""
MAX_RANKED = 4096
"""The most numbers that one program of topk_logits ranks."""

disabled: set[str] = set()
"""Names of kernels that must not be used, for ablations: `varlen_attention`, `fused_add_norm`,
`fused_linear_relu`, `fused_linear_gelu`, `cross_entropy`, `decode_attention`, `topk_logits`,
`beam_update`, `window_attention`."""


@cache
def have_triton() -> bool:
    """Whether triton can be imported; it is not imported."""
    return find_spec("triton") is not None


def interpreted() -> bool:
    """Whether Triton's interpreter runs the kernels, on a CPU."""
    return os.environ.get("TRITON_INTERPRET") == "1"


def can_run(kernel: str, x: Tensor) -> bool:
    """Whether `kernel` can run on the device of `x`; torch.compile gets the plain formula."""
    return (
        (x.is_cuda or interpreted())
        and kernel not in disabled
        and have_triton()
        and not torch.compiler.is_compiling()
    )


def use_kernel(kernel: str, x: Tensor) -> bool:
    """Whether training uses `kernel` for `x`: in half precision."""
    return can_run(kernel, x) and (x.dtype in HALF_DTYPES or interpreted())


def product_dtype(x: Tensor) -> torch.dtype:
    """The precision of products with `x`: autocast's, where it is enabled."""
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def _use_before_products(kernel: str, x: Tensor) -> bool:
    """Whether training uses `kernel` for `x` of any precision: if products with its result are in
    half precision.
    """
    halved = product_dtype(x) in HALF_DTYPES or interpreted()
    return can_run(kernel, x) and not is_traced() and x.dtype != torch.float64 and halved


def use_add_norm(y: Tensor, *, width: int) -> bool:
    """Whether training has a kernel for the norm, `width` wide, of a sum with `y` or with a product
    of `y`.
    """
    return width <= MAX_NORM_WIDTH and use_kernel("fused_add_norm", y)


def use_layer_norm(x: Tensor) -> bool:
    """Whether training has a kernel for the norm of `x` (..., D), which products read."""
    return x.shape[-1] <= MAX_NORM_WIDTH and _use_before_products("fused_add_norm", x)


def use_search_kernel(kernel: str, x: Tensor) -> bool:
    """Whether a search, which needs no gradients, uses `kernel` for `x`: not in float64."""
    return can_run(kernel, x) and x.dtype in FLOAT_DTYPES and not torch.is_grad_enabled()


def use_varlen_attention(x: Tensor) -> bool:
    """Whether there is a kernel for packed queries `x` (..., K)."""
    narrowest, widest = VARLEN_HEAD_WIDTHS
    return use_kernel("varlen_attention", x) and narrowest <= x.shape[-1] <= widest


def use_window_attention(x: Tensor, *, width: int, places: int) -> bool:
    """Whether there is a kernel for heads of `width`, projected from the patches `x` of pictures,
    in windows of `places`.
    """
    narrowest, widest = VARLEN_HEAD_WIDTHS
    fits = places <= MAX_WINDOW_PLACES and narrowest <= width <= widest
    return fits and _use_before_products("window_attention", x)


def use_decode_attention(queries: Tensor) -> bool:
    """Whether there is a kernel for `queries` (B, H, T, K), which need no gradients."""
    if not can_run("decode_attention", queries) or queries.dtype not in FLOAT_DTYPES:
        return False
    max_queries = MAX_QUERIES_FLOAT32 if queries.dtype == torch.float32 else MAX_QUERIES
    return queries.shape[2] <= max_queries and queries.shape[3] <= MAX_DECODE_HEAD_WIDTH


def use_topk_logits(logits: Tensor, count: int) -> bool:
    """Whether there are kernels for the `count` best continuations by `logits` (B, K, V)."""
    return (
        use_search_kernel("topk_logits", logits)
        and logits.is_contiguous()
        and logits.numel() > 0
        and count * topk_chunk(*logits.shape[1:]) <= MAX_RANKED
    )


def topk_chunk(width: int, vocabulary: int) -> int:
    """Tokens of a chunk, so that one program can rank the maxima of all chunks of a sentence."""
    chunk = 32
    while width * -(-vocabulary // chunk) > MAX_RANKED:
        chunk *= 2
    return chunk


def use_beam_update(log_probs: Tensor, capacity: int) -> bool:
    """Whether the kernel is for `log_probs` (B, C) and `capacity` finished hypotheses each."""
    return (
        use_search_kernel("beam_update", log_probs)
        and log_probs.dtype == torch.float32
        and max(log_probs.shape[1], capacity) <= MAX_CANDIDATES
        and len(log_probs) > 0
    )


def launch(
    module: str, kernel: str, grid: tuple[int, ...], *args: Any, on: Tensor, **options: Any
) -> None:
    """Launch a `kernel` of a `module` of `triton/` on the device of the tensor `on`."""
    compiled = getattr(import_module(f"regard.kernels.triton.{module}"), kernel)
    with torch.cuda.device_of(on):  # type: ignore[no-untyped-call]
        compiled[grid](*args, **options, enable_fp_fusion=True)  # the default up to Triton 3.9


def next_power_of_two(size: int, *, least: int = 1) -> int:
    """The smallest power of two that is at least `size` and `least`."""
    return max(least, 1 << (size - 1).bit_length())


def is_traced() -> bool:
    """Whether a graph is being traced, in which lengths and counts are not Python numbers."""
    return bool(torch._C._get_tracing_state())
