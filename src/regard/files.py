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


def open_own(path: Path, flags: int) -> int:
    """A descriptor of a plain file that has no other name, made where it is missing.

    An `OSError` for a link, a pipe, a device or a folder: what is written to them goes elsewhere.
    """
    with suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise OSError(errno.EINVAL, "not a plain file of its own; remove it", str(path))
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


@contextmanager
def growing_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write to behind what it holds."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(open_own(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
            yield file
    except OSError as error:
        raise storage_error(path, error) from error


def refuse_linked_folders(root: Path) -> None:
    """An error if a folder below `root` is a link: what is written there would go elsewhere.

    `root` itself may be one: whoever named it knows where it leads.
    """
    for parent, folders, _ in os.walk(root):
        for folder in (Path(parent, name) for name in folders):
            if folder.is_symlink():
                raise StorageError(
                    f"{folder}: a link to {os.readlink(folder)}, and nothing is written through a "
                    "link inside a run; put a folder in its place"
                )


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
