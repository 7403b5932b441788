import ctypes
import os
import subprocess
import sys

import pytest

from regard.batching import malloc_tuning
from regard.batching.malloc_tuning import (
    ONEDNN_CACHE_ENV,
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


def test_memory_is_kept_and_released_without_error():
    with keep_freed_memory():
        block = bytearray(1 << 26)
    del block


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_other_c_libraries_are_left_alone(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(malloc_tuning.ctypes, "CDLL", lambda _: object())
    with keep_freed_memory():
        pass


@pytest.fixture
def unset(monkeypatch):
    for name in ONEDNN_CACHE_ENV:
        monkeypatch.setenv(name, "")  # so that it is put back, whatever a test does
        monkeypatch.delenv(name)


@pytest.mark.usefixtures("unset")
def test_capacities_set_by_the_user_stay(monkeypatch):
    said, other = ONEDNN_CACHE_ENV
    monkeypatch.setenv(said, "7")
    limit_onednn_caches()
    assert (os.environ[said], os.environ[other]) == ("7", ONEDNN_CACHE_ENV[other])


@pytest.mark.usefixtures("unset")
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="no glibc here")
def test_many_shapes_of_products_take_the_memory_of_few():
    command = [sys.executable, "-c", MULTIPLY]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    first, later = map(int, told.stdout.split())
    if first < 1 << 20:
        pytest.skip("nothing is remembered here: this processor has other products in bfloat16")
    assert later < first / 4
