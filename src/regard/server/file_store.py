"""Translated files, kept in memory until they expire."""

import secrets
import time
from typing import NamedTuple

KEEP_SECONDS = 600.0
"""How long a file can be fetched."""


class StoredFile(NamedTuple):
    """A file and the time at which it expires."""

    name: str
    content: bytes
    expires_at: float


class FileStore:
    """Files by unguessable tokens; the oldest are evicted when `max_bytes` are exceeded."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._files: dict[str, StoredFile] = {}

    def put(self, name: str, content: bytes) -> str:
        """Store a file and return its token; the newest file is stored whatever its size."""
        token = secrets.token_urlsafe(24)
        self._files[token] = StoredFile(name, content, time.monotonic() + KEEP_SECONDS)
        size = sum(len(file.content) for file in self._files.values())
        for old, file in list(self._files.items())[:-1]:
            if size > self._max_bytes or file.expires_at <= time.monotonic():
                size -= len(file.content)
                del self._files[old]
        return token

    def get(self, token: str) -> StoredFile | None:
        """The file, or None if it has expired or was evicted."""
        file = self._files.get(token)
        return file if file and file.expires_at > time.monotonic() else None
