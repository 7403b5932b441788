"""Memory of the machine and of this process, and sizes and times in words."""

import os
from contextlib import suppress
from pathlib import Path

import torch

from regard.recipes.process_memory import PROC_STATUS, peak_rss, read_proc_kb

MEMINFO = Path("/proc/meminfo")
CLEAR_REFS = Path("/proc/self/clear_refs")
CGROUP = Path("/sys/fs/cgroup")  # Linux's limits of a container


def available_memory(device: torch.device) -> int:
    """Bytes that this process may use: all of a GPU, or the free and own memory of the machine."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    free = read_proc_kb(MEMINFO, "MemAvailable")
    own = read_proc_kb(PROC_STATUS, "VmRSS")
    whole = physical_memory()
    return whole if free is None else min(free + (own or 0), whole)


def physical_memory() -> int:
    """Bytes of the machine's memory, or the limit of the container."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # a ValueError if it says "max"
        return min(whole, int((CGROUP / "memory.max").read_text()) or whole)
    return whole


def reset_peak_memory(device: torch.device) -> None:
    """Start to measure a new peak."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):  # if it fails, the peak is since the start of the process
        CLEAR_REFS.write_text("5")  # proc(5): resets the peak of the resident set


def peak_memory(device: torch.device) -> int:
    """Peak bytes since `reset_peak_memory`: of tensors on a GPU, of the process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return peak_rss()


def format_bytes(number: float) -> str:
    """A size in words: 1.3 GB."""
    for unit in ("bytes", "kB", "MB"):
        if number < 999.5:  # more would be rounded to 1e+03
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.1f} GB" if number < 1000 else f"{number / 1000:.1f} TB"


def format_seconds(seconds: float) -> str:
    """A duration in words: 12 minutes."""
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:,.{int(seconds < 10 * size)}f} {unit}"
    return f"{seconds:.{int(seconds < 10)}f} seconds"
