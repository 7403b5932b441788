"""Who may use the server: those who know a key."""

import hmac
import os
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from regard.errors import SettingsError

KEYS_VARIABLE = "REGARD_API_KEYS"
"""The environment variable that may hold keys, with commas or white space between them."""
MIN_KEY_CHARACTERS = 16
"""Characters of a key: fewer could be guessed."""


class ApiKeys:
    """The keys that open the server; where there are none, it is open to all who reach it."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = tuple({key_digest(key) for key in keys})

    def __bool__(self) -> bool:
        return bool(self._digests)

    def authorize(self, key: str) -> bool:
        """Whether `key` is one of them, found in a time that does not tell which or how nearly.

        Digests are compared, all of them: their length and number depend on no key.
        """
        given = key_digest(key)
        return sum([hmac.compare_digest(given, known) for known in self._digests]) > 0


def key_digest(key: str) -> bytes:
    """What a key is known by."""
    return sha256(key.encode(errors="surrogatepass")).digest()


def read_keys(file: Path | None) -> ApiKeys:
    """The keys of a file, one on each line, `#` before a remark; and those of the environment."""
    found = os.environ.get(KEYS_VARIABLE, "").replace(",", " ").split()
    where = KEYS_VARIABLE
    if file is not None:
        where = str(file)
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"--keys {file}: cannot be read: {error}") from None
        read = [line.split("#")[0].strip() for line in lines]
        found += [key for key in read if key]
        if not any(read):
            raise SettingsError(
                f"--keys {file}: holds no keys: write one on each line, or leave out --keys"
            )
    for number, key in enumerate(found, 1):
        if len(key) < MIN_KEY_CHARACTERS:
            raise SettingsError(
                f"{where}: key {number} has {len(key)} characters, but {MIN_KEY_CHARACTERS} are "
                "needed: "
                "make one with: openssl rand -hex 24"
            )
    return ApiKeys(found)
