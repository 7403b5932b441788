"""How many bytes of a file are read, unpacked. The variable REGARD_LIMITS sets other numbers."""

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Literal

from regard.errors import SettingsError

VARIABLE = "REGARD_LIMITS"

SizeLimit = Literal[
    "text", "examples", "line", "document", "config", "json", "yaml", "metrics", "picture", "array"
]
_LIMITS: Mapping[SizeLimit, tuple[int, str]] = {
    "text": (1 << 40, "a file that is read line by line"),
    "examples": (1 << 30, "a file whose lines or rows are held in memory"),
    "line": (16 << 20, "a line, a row or a unit of a file"),
    "document": (16 << 20, "a document"),
    "config": (1 << 20, "a small file of settings or remarks"),
    "json": (64 << 20, "JSON, a vocabulary or a line in a run"),
    "yaml": (256 << 10, "a file of YAML"),
    "metrics": (1 << 30, "a file of metrics"),
    "picture": (256 << 20, "a picture"),
    "array": (256 << 20, "a file of arrays or of expected answers"),
}
_PREFIXES = "KMGT"
_SETTING = re.compile(rf"(\w+)=(\d{{1,15}})([{_PREFIXES}]?)(?:i?B)?", re.IGNORECASE)


def max_bytes(limit: SizeLimit) -> int:
    """The bytes that are read at most."""
    return _parse(os.environ.get(VARIABLE, "")).get(limit, _LIMITS[limit][0])


def too_large(limit: SizeLimit) -> str:
    """What is said of a file, or a part of one, that exceeds a limit."""
    size = max_bytes(limit)
    return (
        f"larger than {format_size(size)}, the limit of {_LIMITS[limit][1]}; to read more: "
        f"{VARIABLE}={limit}={format_size(4 * size)}"
    )


def format_size(size: int) -> str:
    """A number of bytes in the largest unit of which it is a multiple, such as 16MiB."""
    power = 0
    while size and size % 1024 == 0 and power < len(_PREFIXES):
        size, power = size // 1024, power + 1
    return f"{size}{_PREFIXES[power - 1]}iB" if power else f"{size}B"


@cache
def _parse(setting: str) -> Mapping[str, int]:
    """The limits that the variable sets."""
    limits = {}
    for part in setting.replace(",", " ").split():
        found = _SETTING.fullmatch(part)
        if found is None or found[1] not in _LIMITS:
            raise SettingsError(
                f"{VARIABLE}: {part!r} is not a limit such as document=64MiB; there are "
                f"{', '.join(_LIMITS)}"
            )
        power = (_PREFIXES.index(found[3].upper()) + 1) if found[3] else 0
        limits[found[1]] = int(found[2]) << 10 * power
    return limits
