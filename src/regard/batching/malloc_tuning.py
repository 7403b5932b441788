"""Keeps memory that a training step frees and the next one asks for again."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
MAX_TRIM_THRESHOLD = 2**31 - 1
MAX_MMAP_THRESHOLD = 2**25
"""glibc refuses more."""
DEFAULT_TRIM_THRESHOLD = 2**26
"""What glibc adapts to for large blocks; after a call of mallopt it no longer adapts."""

ONEDNN_CACHE_ENV = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
"""Capacities of oneDNN's cache of compiled products and of its C++ interface's cache of plans. A
step of a Transformer has about 40 shapes. The defaults are 1024, a quarter of a megabyte each."""


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """Within this context the process keeps the memory that it frees, if its C library is glibc.

    By default glibc returns large blocks to the kernel as soon as they are free, and each page that
    is asked for again is a fault: a tenth of the time of a training step on a CPU.
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
    """Limit how many shapes of bfloat16 products torch caches on a CPU, unless the user has.

    Packed batches hardly ever repeat a shape, so that the caches only take memory, and fragment it.
    They read these variables when they are first used: there is no function for it.
    """
    for name, size in ONEDNN_CACHE_ENV.items():
        os.environ.setdefault(name, size)
