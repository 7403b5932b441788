"""Memory that a step frees and the next one asks for again."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What glibc's mallopt calls them."""
KEPT = 2**31 - 1
"""Bytes that may lie free at the end of the heap: as many as mallopt can be told."""
LARGE = 2**25
"""Bytes of the largest block that comes from the heap: more than this glibc refuses."""
USUAL = 2**26
"""Bytes that may lie free otherwise: as many as glibc comes to by itself, where large blocks are
asked for; once it was told a number, it no longer does."""


@contextmanager
def kept_memory() -> Iterator[None]:
    """For as long as it takes, this process keeps the memory that it frees.

    Left to itself, glibc gives large blocks back to the kernel as soon as they are free, and each
    page that is asked for again is a fault: on a CPU a tenth of the time of a step. Where the C
    library is another one, nothing happens.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(TRIM_THRESHOLD, KEPT)
    libc.mallopt(MMAP_THRESHOLD, LARGE)
    try:
        yield
    finally:
        libc.mallopt(TRIM_THRESHOLD, USUAL)
        libc.malloc_trim(0)
