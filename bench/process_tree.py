"""What a process and all its descendants use, read from /proc."""

import os
import signal
import socket
import struct
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

MEBI = 1 << 20
LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
LISTENING = "0A"  # the state of a socket in /proc/net/tcp
TICKS = os.sysconf("SC_CLK_TCK")


def descendants(root: int) -> list[int]:
    """The process and all that it, and they, have started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                parent = int(_fields(int(entry.name))[1])
                children.setdefault(parent, []).append(int(entry.name))
    found = [root]
    for process in found:
        found += children.get(process, [])
    return found


def processes_called(root: int, title: str) -> list[int]:
    """Those descendants whose command line holds `title`."""
    found = []
    for process in descendants(root):
        with suppress(OSError):
            if title.encode() in Path(f"/proc/{process}/cmdline").read_bytes():
                found.append(process)
    return found


def kill(process: int) -> None:
    """SIGKILL, unless it is gone."""
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def listening_addresses(root: int, without: Collection[int] = ()) -> set[str]:
    """The addresses at which the process and its descendants, `without` some, accept TCP
    connections.
    """
    counted = {*descendants(root)} - {*without}
    own = {link for process in counted for link in _descriptors(process)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENING and f"socket:[{fields[9]}]" in own:
                found.add(_address(fields[1].partition(":")[0]))
    return found


class TreeUse:
    """The peak memory of a tree of processes, and the time that it had of the cores."""

    def __init__(self, root: int) -> None:
        self._root, self._ended = root, threading.Event()
        self._seconds: dict[int, float] = {}
        self.peak_mb = self.root_peak_mb = 0.0

    @property
    def core_seconds(self) -> float:
        return sum(self._seconds.values())

    def sample(self) -> None:
        """Look at all processes once: pages that several share count once (PSS)."""
        total = 0.0
        for process in descendants(self._root):
            with suppress(OSError, ValueError, IndexError):
                fields = _fields(process)
                self._seconds[process] = (int(fields[11]) + int(fields[12])) / TICKS
                size = _pss(process)
                total += size
                if process == self._root:
                    self.root_peak_mb = max(self.root_peak_mb, size)
        self.peak_mb = max(self.peak_mb, total)

    @classmethod
    @contextmanager
    def watch(cls, root: int, every: float = 0.5) -> Iterator[Self]:
        """Samples every so many seconds while the body runs."""
        use = cls(root)

        def run() -> None:
            while not use._ended.wait(every):
                use.sample()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield use
        finally:
            use._ended.set()
            thread.join()


def _descriptors(process: int) -> Iterator[str]:
    """What the open descriptors of a process are links to."""
    with suppress(OSError):
        for entry in Path(f"/proc/{process}/fd").iterdir():
            with suppress(OSError):
                yield os.readlink(entry)


def _address(text: str) -> str:
    """An address of /proc/net/tcp: words of 32 bits in this machine's order."""
    words = struct.unpack(f">{len(text) // 8}I", bytes.fromhex(text))
    packed = struct.pack(f"={len(words)}I", *words)
    return socket.inet_ntop(socket.AF_INET if len(words) == 1 else socket.AF_INET6, packed)


def _fields(process: int) -> list[str]:
    """The fields of /proc/PID/stat behind the name: state, parent, …"""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _pss(process: int) -> float:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024 / MEBI
