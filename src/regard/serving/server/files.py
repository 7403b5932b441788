"""Translated files, kept in memory until they are fetched or forgotten."""

import secrets
import time
from collections import OrderedDict
from typing import NamedTuple

KEPT = 600.0
"""Seconds that a file can be fetched."""


class Stored(NamedTuple):
    """A file, and when it is forgotten."""

    name: str
    content: bytes
    until: float


class FileStore:
    """Files by names that nobody can guess; the oldest make room for new ones."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._files: OrderedDict[str, Stored] = OrderedDict()

    def put(self, name: str, content: bytes) -> str:
        """Keep a file; what it can be fetched by."""
        token = secrets.token_urlsafe(24)
        self._files[token] = Stored(name, content, time.monotonic() + KEPT)
        self._forget()
        return token

    def get(self, token: str) -> Stored | None:
        """The file, if it is still there."""
        self._forget()
        return self._files.get(token)

    def _forget(self) -> None:
        now, room = time.monotonic(), self._room
        size = sum(len(file.content) for file in self._files.values())
        while self._files:
            oldest = next(iter(self._files.values()))
            if oldest.until > now and (size <= room or len(self._files) == 1):
                return
            size -= len(oldest.content)
            self._files.popitem(last=False)
