"""How much memory this process takes, as the system has it; torch is not asked."""

import re
import resource
import sys
from pathlib import Path

PROC_STATUS = Path("/proc/self/status")


def peak_rss() -> int:
    """Bytes that this process has held at the most.

    As Linux has it of the program that runs; `getrusage` would count the one that started it too.
    """
    peak = read_proc_kb(PROC_STATUS, "VmHWM")
    if peak is not None:
        return peak
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return taken if sys.platform == "darwin" else taken * 1024


def read_proc_kb(file: Path, key: str) -> int | None:
    """The size behind `key` in one of Linux's own files, in bytes; None where it does not say."""
    try:
        found = re.search(rf"^{key}:\s+(\d+) kB", file.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
