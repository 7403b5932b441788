import ctypes
import sys

import pytest

from regard.batching import memory
from regard.batching.memory import KEPT, LARGE, MMAP_THRESHOLD, TRIM_THRESHOLD, USUAL, kept_memory


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
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: libc)
    with kept_memory():
        assert libc.told == [(TRIM_THRESHOLD, KEPT), (MMAP_THRESHOLD, LARGE)]
        assert not libc.trimmed
    assert dict(libc.told) == {TRIM_THRESHOLD: USUAL, MMAP_THRESHOLD: LARGE}
    assert libc.trimmed == 1


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_another_library_is_left_alone(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    asked = []

    class Other:
        def __getattr__(self, name):
            asked.append(name)
            raise AttributeError(name)

    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: Other())
    with kept_memory():
        pass
    assert asked == (["mallopt"] if platform == "linux" else [])


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="no glibc here")
def test_glibc_takes_these_values():
    libc = ctypes.CDLL(None)
    try:
        assert libc.mallopt(TRIM_THRESHOLD, KEPT) == 1
        assert libc.mallopt(MMAP_THRESHOLD, LARGE) == 1
    finally:
        libc.mallopt(TRIM_THRESHOLD, USUAL)
