"""Files that are written whole or not at all, and listed in the manifest of their folder."""

import errno
import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from regard.errors import RegardError, StorageError
from regard.manifest import (
    PART_FILE_NAME,
    find_entry,
    open_part_file,
    open_plain,
    remove_folder_entries,
    replace_and_sync,
    sha256_of_file,
    sync,
    update_entry,
)
from regard.size_limits import SizeLimit, max_bytes, too_large

TEMPORARY_PREFIX = ".regard-unfinished-"
STALE_SECONDS = 60  # an unlocked temporary folder this old was left by a killed process
DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def atomic_file(path: Path, parts: Mapping[str, str] | None = None) -> Iterator[BinaryIO]:
    """A new file to write, which replaces `path` once all of it is on the disk.

    If the process is killed, `path` holds either all of the old content or all of the new. `parts`
    are the digests of parts of the file, which the manifest lists too.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _check_replaceable(path)
        with open_part_file(path) as file:
            yield file
            part_file = sync(file)
            new = sha256_of_file(part_file) if find_entry(path) else None
            with update_entry(path, new, parts or {}):
                replace_and_sync(part_file, path)
    except OSError as error:
        raise storage_error(path, error) from error


def _check_replaceable(path: Path) -> None:
    """Raise an `OSError` if `path` is a pipe, a socket or a device, which a file would replace."""
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise OSError(errno.EINVAL, "a pipe or a device; name a plain file", str(path))


def write_atomic(path: Path, content: bytes, parts: Mapping[str, str] | None = None) -> None:
    """Make `path` hold `content`."""
    with atomic_file(path, parts) as file:
        file.write(content)


def read_limited(path: Path, limit: SizeLimit) -> bytes:
    """The content of a plain file; an `OSError` if it exceeds the limit, or is a pipe."""
    with open_plain(path) as file:
        most, size = max_bytes(limit), os.fstat(file.fileno()).st_size
        content = file.read(most + 1) if size <= most else b""
        if max(size, len(content)) > most:
            raise OSError(errno.EFBIG, too_large(limit), str(path))
        return content


def plain_lines(path: Path) -> Iterator[bytes]:
    """The lines of a plain file, with their ends; an `OSError` for a pipe or an endless line."""
    longest = max_bytes("json")
    with open_plain(path) as file:
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise OSError(errno.EFBIG, f"a line {too_large('json')}", str(path))
            yield line


def open_regular(path: Path, flags: int) -> int:
    """A descriptor of a plain file, created if missing; an `OSError` for a link or a pipe."""
    with suppress(FileNotFoundError):
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise OSError(errno.EINVAL, "not a plain file of its own; remove it", str(path))
    return os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)


@contextmanager
def exclusive_lock(path: Path, in_use: Callable[[str], RegardError]) -> Iterator[None]:
    """Hold the lock file `path`, which then names this process. If another process holds it, raise
    the error that `in_use` makes from its process id.
    """
    try:
        handle = open_regular(path, os.O_RDWR)
    except OSError as error:
        at_fault = path if error.filename == str(path) else path.parent
        raise storage_error(at_fault, error) from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise in_use(lock_owner(handle)) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def lock_owner(handle: int) -> str:
    """The id of the process that holds a lock file, as that process wrote it there."""
    return os.pread(handle, 20, 0).decode() or "unknown"


@contextmanager
def append_file(path: Path) -> Iterator[BinaryIO]:
    """A file that is opened for appending, and created if missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(open_regular(path, os.O_WRONLY | os.O_APPEND), "ab") as file:
            yield file
    except OSError as error:
        raise storage_error(path, error) from error


def remove_file(path: Path) -> None:
    """Remove a file, if it exists, from its folder and from the manifest."""
    entry = find_entry(path)
    if not path.exists() and not (entry and entry.states):
        return
    try:
        with update_entry(path, None, {}):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise storage_error(path, error) from error


def check_no_linked_folders(root: Path) -> None:
    """Raise an error if a folder below `root` is a link: files written there would go elsewhere."""
    for parent, folders, _ in os.walk(root):
        for folder in (Path(parent, name) for name in folders):
            if folder.is_symlink():
                raise StorageError(
                    f"{folder}: a link to {os.readlink(folder)}, and nothing is written through a "
                    "link inside a run; put a folder in its place"
                )


def remove_tree(path: Path) -> None:
    """Remove a folder and its contents, as far as possible."""
    shutil.rmtree(path, ignore_errors=True)
    entry = find_entry(path)
    if entry is not None and not path.exists():
        remove_folder_entries(entry.root, entry.name)


def remove_part_files(folder: Path) -> None:
    """Remove the unfinished files that killed processes have left in a folder."""
    for leftover in folder.glob(".*.part"):
        if PART_FILE_NAME.fullmatch(leftover.name) and leftover.is_file():  # a pipe would block
            with suppress(OSError), leftover.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error while it is written
                leftover.unlink(missing_ok=True)


@contextmanager
def temporary_folder(parent: Path) -> Iterator[Path]:
    """A new folder on the disk of `parent`, deleted afterwards unless it was moved.

    The folder around it is locked, so that folders left by killed processes are recognised, and
    deleted too.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        around = Path(tempfile.mkdtemp(dir=parent, prefix=TEMPORARY_PREFIX))
        folder = around / "files"
        folder.mkdir()
    except OSError as error:
        raise storage_error(parent, error) from error
    with _locked_folder(around, required=False):
        for other in parent.glob(f"{TEMPORARY_PREFIX}*"):
            with suppress(OSError):  # another process has locked it
                if time.time() - other.stat().st_mtime > STALE_SECONDS:
                    with _locked_folder(other):
                        shutil.rmtree(other)
        try:
            yield folder
        except OSError as error:
            if error.errno in DISK_FULL:
                raise storage_error(parent, error) from error
            raise
        finally:
            shutil.rmtree(around, ignore_errors=True)


@contextmanager
def _locked_folder(folder: Path, *, required: bool = True) -> Iterator[None]:
    """Lock a folder; otherwise (locked elsewhere, unsupported) raise `OSError` if `required`."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with nullcontext() if required else suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def storage_error(path: Path, error: OSError) -> StorageError:
    """The error for a file that could not be written."""
    if error.errno in DISK_FULL:
        return StorageError(
            f"{path}: the disk is full; what was written before is intact. Make room and try again"
        )
    if error.errno == errno.EEXIST:  # of a folder that is to be made
        found = error.filename or path
        return StorageError(f"{found}: not a folder, which is needed there; give another path")
    return StorageError(f"{path}: cannot be written: {error.strerror or error}")
