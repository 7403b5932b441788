"""Memory that a step frees and the next one asks for again, and what torch keeps for good."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What glibc's mallopt calls them."""
MAX_TRIM_THRESHOLD = 2**31 - 1
"""Bytes that may lie free at the end of the heap: as many as mallopt can be told."""
MAX_MMAP_THRESHOLD = 2**25
"""Bytes of the largest block that comes from the heap: more than this glibc refuses."""
DEFAULT_TRIM_THRESHOLD = 2**26
"""Bytes that may lie free otherwise: as many as glibc comes to by itself, where large blocks are
asked for; once it was told a number, it no longer does."""

ONEDNN_CACHE_ENV = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
"""How many products two caches hold that torch multiplies with: oneDNN's, of what it compiled for a
shape, and that of its C++ interface ideep, of what it planned for one. A step of a Transformer has
about 40 shapes. By themselves both hold 1024, each a quarter of a megabyte."""


@contextmanager
def keep_freed_memory() -> Iterator[None]:
    """For as long as it takes, this process keeps the memory that it frees.

    Left to itself, glibc gives large blocks back to the kernel as soon as they are free, and each
    page that is asked for again is a fault: on a CPU a tenth of the time of a step. Where the C
    library is another one, nothing happens.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(TRIM_THRESHOLD, MAX_TRIM_THRESHOLD)
    libc.mallopt(MMAP_THRESHOLD, MAX_MMAP_THRESHOLD)
    try:
        yield
    finally:
        libc.mallopt(TRIM_THRESHOLD, DEFAULT_TRIM_THRESHOLD)
        libc.malloc_trim(0)


def limit_onednn_caches() -> None:
    """From now on, torch remembers how to multiply in bfloat16 on a CPU for few shapes alone.

    It remembers each shape that it was given. Packed batches hardly ever have one again, so that
    this takes memory and saves no time; and as it lies between blocks that a step frees, these are
    too small for the next. There is no function to say so, but both caches look here when they are
    first used: who has multiplied in bfloat16 before in this process keeps what there was. So does
    who has said otherwise.
    """
    for name, size in ONEDNN_CACHE_ENV.items():
        os.environ.setdefault(name, size)
