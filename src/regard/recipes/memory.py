"""How much memory and disk there is, and how much of it is taken at the most."""

import os
from contextlib import suppress
from pathlib import Path

import torch

from regard.recipes.process_memory import PROC_STATUS, peak_rss, read_proc_kb

MEMINFO = Path("/proc/meminfo")
CLEAR_REFS = Path("/proc/self/clear_refs")
CGROUP = Path("/sys/fs/cgroup")
"""Where Linux says what a container may take."""


def available_memory(device: torch.device) -> int:
    """Bytes that a process may take on the device: all of a GPU's; on a CPU, what is free."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    free = read_proc_kb(MEMINFO, "MemAvailable")
    own = read_proc_kb(PROC_STATUS, "VmRSS")
    whole = physical_memory()
    return whole if free is None else min(free + (own or 0), whole)


def physical_memory() -> int:
    """Bytes of the machine's memory, or as many of them as a container may take."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(whole, _cgroup_limit() or whole)


def reset_peak_memory(device: torch.device) -> None:
    """Begin to watch for a new peak."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):  # without it, the peak is of all that the process did, and no less
        CLEAR_REFS.write_text("5")  # proc(5): resets the peak of the resident set


def peak_memory(device: torch.device) -> int:
    """Bytes taken at the most since `forget_peak`: by tensors on a GPU, by the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return peak_rss()


def _cgroup_limit() -> int | None:
    """Bytes that the container of this process may take; None where there is no limit."""
    try:
        return int((CGROUP / "memory.max").read_text())
    except (OSError, ValueError):  # a ValueError where it says "max"
        return None


def format_bytes(number: float) -> str:
    """A size that a person can read: 1.3 GB."""
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.1f} GB" if number < 1000 else f"{number / 1000:.1f} TB"


def format_seconds(seconds: float) -> str:
    """A span of time that a person can read: 12 minutes."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return (
                f"{seconds / size:.1f} {unit}"
                if seconds < 10 * size
                else (f"{seconds / size:,.0f} {unit}")
            )
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.1f} seconds"
