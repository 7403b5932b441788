"""The metrics of a run, as `metrics.jsonl` and for TensorBoard."""

import math
import os
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import masked_crc32c

from regard.atomic_io import append_file, read_limited, write_atomic
from regard.errors import RunError
from regard.json_files import dump_json, parse_json


class MetricLog:
    """Appends records to a run's metrics; when resumed at a step, drops those of later steps.

    Unlike TensorBoard's own writers, which use a thread, it raises an error if the disk is full.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / "metrics.jsonl"
        kept = [dump_json(r) + "\n" for r in read_metrics(self.path) if r["step"] <= step]
        write_atomic(self.path, "".join(kept).encode())
        begun, host = int(time.time()), socket.gethostname()
        name = f"events.out.tfevents.{begun:010d}.{host}.{os.getpid()}.0"
        self._events = folder / "tensorboard" / name
        first = step + 1  # from here on TensorBoard drops the events of earlier files
        self._write_event(Event(step=first, file_version="brain.Event:2"))
        self._write_event(Event(step=first, session_log=SessionLog(status=SessionLog.START)))

    def add(self, kind: str, step: int, numbers: Mapping[str, float]) -> None:
        """Record `numbers` of a `kind`, such as "train", at a step; numbers that are not finite
        become null.
        """
        finite = {name: x if math.isfinite(x) else None for name, x in numbers.items()}
        line = dump_json({"kind": kind, "step": step, **finite}) + "\n"
        with append_file(self.path) as file:
            file.write(line.encode())
        tagged = ((f"{kind}/{name}", x) for name, x in numbers.items())
        values = [Summary.Value(tag=tag, simple_value=x) for tag, x in tagged]
        self._write_event(Event(step=step, summary=Summary(value=values)))

    def _write_event(self, event: Event) -> None:
        event.wall_time = time.time()
        content = event.SerializeToString()
        length = struct.pack("<Q", len(content))
        with append_file(self._events) as file:
            file.write(length + _checksum(length) + content + _checksum(content))


def _checksum(content: bytes) -> bytes:
    """The checksum that follows each part of a record in TensorBoard's files."""
    return struct.pack("<I", masked_crc32c(content))


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a run so far; lines that are not records, such as a truncated one, are
    skipped.
    """
    try:
        content = read_limited(path, "metrics")
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunError(f"{path}: cannot be read: {error.strerror}") from None
    for line in content.splitlines():
        with suppress(ValueError):
            record = parse_json(line)
            if _is_record(record):
                yield record


def _is_record(value: Any) -> bool:
    """Whether a value is a record of `MetricLog`: numbers of a step, all of them finite."""
    if not isinstance(value, dict) or not isinstance(value.get("step"), int):
        return False
    return all(math.isfinite(x) for x in value.values() if isinstance(x, float))
