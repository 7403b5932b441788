"""Files that are written whole or not at all, and read only if they are plain ones."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from regard.errors import StorageError


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A new file to write, which takes the place of `path` once all of it is on the disk.

    Whatever fails, and whenever the process is killed, `path` holds what it held before or all of
    the new content.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)  # of a killed process that had our number
        with unfinished.open("xb") as file:  # "x" follows no link
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise storage_error(path, error) from error
    finally:
        with suppress(OSError):  # why it cannot be removed has been raised already
            unfinished.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Make `path` hold `content`."""
    with whole_file(path) as file:
        file.write(content)


def read_whole(path: Path, *, most: int) -> bytes:
    """All of a plain file of at most `most` bytes; else an `OSError` that says what is wrong.

    A pipe or a device, which might never end, is not waited for.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a plain file", str(path))
        content = file.read(most + 1) if found.st_size <= most else b""
        if max(found.st_size, len(content)) > most:
            raise OSError(errno.EFBIG, f"larger than {most:,} bytes", str(path))
        return content


def storage_error(path: Path, error: OSError) -> StorageError:
    """What to tell a person whose disk did not take a file."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StorageError(
            f"{path}: the disk is full; what was written before is whole. Make room and try again"
        )
    return StorageError(f"{path}: cannot be written: {error.strerror or error}")


def _sync_folder(folder: Path) -> None:
    """Make a rename outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
