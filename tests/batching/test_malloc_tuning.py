import ctypes
import os
import subprocess
import sys

import pytest

from regard.batching import malloc_tuning
from regard.batching.malloc_tuning import (
    DEFAULT_TRIM_THRESHOLD,
    MAX_MMAP_THRESHOLD,
    MAX_TRIM_THRESHOLD,
    MMAP_THRESHOLD,
    ONEDNN_CACHE_ENV,
    TRIM_THRESHOLD,
    keep_freed_memory,
    limit_onednn_caches,
)

MULTIPLY = """
import ctypes
import torch
from regard.batching.malloc_tuning import limit_onednn_caches

class Heap(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Heap
limit_onednn_caches()
weight, used = torch.zeros(64, 64, dtype=torch.bfloat16), []
for rows in range(1, 402):
    torch.zeros(rows, 64, dtype=torch.bfloat16) @ weight
    used.append(libc.mallinfo2().uordblks)
print(used[50] - used[0], used[400] - used[100])
"""
"""What 50 shapes leave in use of the heap, and what 300 do where a hundred were before them."""


class Libc:
    """A C library that remembers what it was told."""

    def __init__(self):
        self.told, self.trimmed = [], 0

    def mallopt(self, name, value):
        self.told.append((name, value))
        return 1

    def malloc_trim(self, pad):
        self.trimmed += 1


def test_what_is_freed_is_kept_and_given_back_at_last(monkeypatch):
    libc = Libc()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(malloc_tuning.ctypes, "CDLL", lambda _: libc)
    with keep_freed_memory():
        assert libc.told == [
            (TRIM_THRESHOLD, MAX_TRIM_THRESHOLD),
            (MMAP_THRESHOLD, MAX_MMAP_THRESHOLD),
        ]
        assert not libc.trimmed
    assert dict(libc.told) == {
        TRIM_THRESHOLD: DEFAULT_TRIM_THRESHOLD,
        MMAP_THRESHOLD: MAX_MMAP_THRESHOLD,
    }
    assert libc.trimmed == 1


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_another_library_is_left_alone(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    asked = []

    class Other:
        def __getattr__(self, name):
            asked.append(name)
            raise AttributeError(name)

    monkeypatch.setattr(malloc_tuning.ctypes, "CDLL", lambda _: Other())
    with keep_freed_memory():
        pass
    assert asked == (["mallopt"] if platform == "linux" else [])


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc here")
def test_glibc_takes_these_values():
    libc = ctypes.CDLL(None)
    try:
        assert libc.mallopt(TRIM_THRESHOLD, MAX_TRIM_THRESHOLD) == 1
        assert libc.mallopt(MMAP_THRESHOLD, MAX_MMAP_THRESHOLD) == 1
    finally:
        libc.mallopt(TRIM_THRESHOLD, DEFAULT_TRIM_THRESHOLD)


@pytest.fixture
def unset(monkeypatch):
    for name in ONEDNN_CACHE_ENV:
        monkeypatch.setenv(name, "")  # so that it is put back, whatever a test does
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("unset")
def test_who_has_said_how_many_shapes_is_left_alone(monkeypatch):
    said, other = ONEDNN_CACHE_ENV
    monkeypatch.setenv(said, "7")
    limit_onednn_caches()
    assert (os.environ[said], os.environ[other]) == ("7", ONEDNN_CACHE_ENV[other])


@pytest.mark.usefixtures("unset")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="no glibc here")
def test_products_of_many_shapes_take_the_memory_of_few():
    command = [sys.executable, "-c", MULTIPLY]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    first, later = map(int, told.stdout.split())
    if first < 1 << 20:
        pytest.skip("nothing is remembered here: this processor has other products in bfloat16")
    assert later < first / 4
