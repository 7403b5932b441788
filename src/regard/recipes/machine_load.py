"""How much of the machine other processes use, without importing torch."""

import os
from pathlib import Path

STAT = Path("/proc/stat")
BUSY_CORES = 0.5  # wanted by this process and used by others


class OtherWork:
    """Watches how many cores other processes use."""

    def __init__(self) -> None:
        self._before = _ticks()

    def takes_from(self, threads: int) -> bool:
        """Whether, since the last call, others have used cores that `threads` of this process could
        have used; False where the system does not say, or other processes are of the same training.
        """
        before, self._before = self._before, _ticks()
        several = os.environ.get("WORLD_SIZE", "1") != "1"
        if before is None or self._before is None or several:
            return False
        used, own, elapsed = (new - old for new, old in zip(self._before, before, strict=True))
        cores = os.cpu_count() or 1
        others = (used - own) / max(elapsed, 1) * cores
        return others > cores - threads + BUSY_CORES


def _ticks() -> tuple[float, float, float] | None:
    """Ticks of all cores that were used, those of this process, and all that passed."""
    try:
        fields = STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    ticks = [int(field) for field in fields]
    own = sum(os.times()[:4]) * os.sysconf("SC_CLK_TCK")
    idle, waiting = ticks[3:5]
    return sum(ticks) - idle - waiting, own, sum(ticks)
