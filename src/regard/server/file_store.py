"""Translated files, kept in memory until they are fetched or forgotten."""

import secrets
import time
from collections import OrderedDict
from typing import NamedTuple

KEEP_SECONDS = 600.0
"""Seconds that a file can be fetched."""


class StoredFile(NamedTuple):
    """A file, and when it is forgotten."""

    name: str
    content: bytes
    expires_at: float


class FileStore:
    """Files by names that nobody can guess; the oldest make room for new ones."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._files: OrderedDict[str, StoredFile] = OrderedDict()

    def put(self, name: str, content: bytes) -> str:
        """Keep a file; what it can be fetched by."""
        token = secrets.token_urlsafe(24)
        self._files[token] = StoredFile(name, content, time.monotonic() + KEEP_SECONDS)
        self._evict()
        return token

    def get(self, token: str) -> StoredFile | None:
        """The file, if it is still there."""
        self._evict()
        return self._files.get(token)

    def _evict(self) -> None:
        now, max_bytes = time.monotonic(), self._max_bytes
        size = sum(len(file.content) for file in self._files.values())
        while self._files:
            oldest = next(iter(self._files.values()))
            if oldest.expires_at > now and (size <= max_bytes or len(self._files) == 1):
                return
            size -= len(oldest.content)
            self._files.popitem(last=False)
