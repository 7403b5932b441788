"""Keeps memory that one training step frees and the next allocates again."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # parameters of glibc's mallopt
MAX_TRIM_THRESHOLD = 2**31 - 1
MAX_MMAP_THRESHOLD = 2**25  # glibc refuses more
DEFAULT_TRIM_THRESHOLD = 2**26  # the most that glibc adapts it to, which mallopt turns off

ONEDNN_CACHE_ENV = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
"""Limits on the products that oneDNN and its C++ interface cache; the defaults, 1024, take 256 MB
each."""


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """A context in which the process keeps the memory that it frees, if its C library is glibc:
    page faults on returned blocks take a tenth of a training step on a CPU.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(M_TRIM_THRESHOLD, MAX_TRIM_THRESHOLD)
    libc.mallopt(M_MMAP_THRESHOLD, MAX_MMAP_THRESHOLD)
    try:
        yield
    finally:
        libc.mallopt(M_TRIM_THRESHOLD, DEFAULT_TRIM_THRESHOLD)
        libc.malloc_trim(0)


def limit_onednn_caches() -> None:
    """Limit how many shapes of bfloat16 products torch caches on a CPU, unless the user has: packed
    batches hardly ever repeat a shape. The variables are read at the first product.
    """
    for name, size in ONEDNN_CACHE_ENV.items():
        os.environ.setdefault(name, size)
