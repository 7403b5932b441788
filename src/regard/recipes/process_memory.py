"""Memory of this process, measured without importing torch."""

import re
import resource
import sys
from pathlib import Path

PROC_STATUS = Path("/proc/self/status")


def peak_rss() -> int:
    """Peak bytes of this process."""
    peak = read_proc_kb(PROC_STATUS, "VmHWM")
    if peak is not None:
        return peak
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # also of what started this process
    return taken if sys.platform == "darwin" else taken * 1024


def read_proc_kb(file: Path, key: str) -> int | None:
    """The value of `key` in a file of /proc, in bytes; None if it has none."""
    try:
        match = re.search(rf"^{key}:\s+(\d+) kB", file.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None
