"""The manifest of a run, an export or a comparison: a file beside its files, with their digests.

Every file that `atomic_io` writes is listed in the nearest `manifest.json` above it. While a file
is replaced, its entry holds the digests of both contents, so that a killed process leaves a valid
manifest.
"""

import errno
import fcntl
import hashlib
import json
import os
import re
import stat
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple

from regard.errors import DamagedError, RunWarning
from regard.settings import quoted
from regard.size_limits import max_bytes

MANIFEST = "manifest.json"
VERSION = 1
UNLISTED = ("metrics.jsonl", "tensorboard", "checkpoints", "logs")
"""Files that are not listed: growing logs, and files with digests in their names; nor are hidden
files."""
MARKER_FILES = ("recipe.yaml", "export.json", "exchange.json", "plan.json")
"""A `manifest.json` beside one of these is one of regard's: if it cannot be read, it is damaged."""
MAX_PARENT_FOLDERS = 5  # above a file, in which its manifest is looked for
PART_FILE_NAME = re.compile(r"\..+\.\d+\.part")  # the name of a file that is being written
READ_ATTEMPTS = 5  # at most, while another process replaces the file
SETTLED_NS = 2 * 10**9  # after a change of a file; before it, a coarse clock hides another change
_DIGESTS: dict[tuple[int, ...], str] = {}  # those of this process, by the identity of the file

Digests = tuple[str | None, ...]  # the SHA-256 of what a file may hold; None: it may be missing


class ManifestEntry(NamedTuple):
    """The entry of a file in a manifest."""

    root: Path
    name: str  # its path below the root, with slashes
    states: Digests  # empty: it is not listed


def create_manifest(root: Path) -> None:
    """Write a manifest without entries into `root`, unless it has one."""
    with _locked(root):
        if read_manifest(root) is None:
            _save(root, {})


def rebuild_manifest(root: Path, parts: Mapping[str, str], *, lock: bool = True) -> None:
    """List all files below `root` with their current digests, and `parts` of them with separate
    ones.

    A folder that has not yet been moved into place needs no `lock`.
    """
    with _locked(root) if lock else nullcontext():
        files = {name: digest_or_none(root / name) for name in list_files(root)}
        _save(root, {name: (state,) for name, state in (files | dict(parts)).items() if state})


def read_manifest(root: Path) -> dict[str, Digests] | None:
    """The files that a manifest lists, with their valid digests; None: there is no manifest."""
    path = root / MANIFEST
    try:
        if not path.is_file() or path.stat().st_size > max_bytes("json"):
            raise ValueError if path.exists() else FileNotFoundError
        content = json.loads(path.read_bytes())
        files = {name: tuple(states) for name, states in content["files"].items()}
        plain = all(isinstance(one, str | None) for states in files.values() for one in states)
        if not plain or (content["regard"], content["sha256"]) != (VERSION, _own_digest(files)):
            raise ValueError
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DamagedError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        if not any((root / name).is_file() for name in MARKER_FILES):
            return None  # the file of another program
        raise DamagedError(
            f"{path}: damaged, so that nothing here can be checked against it; restore it from a "
            f"copy, or accept the files as they are: regard verify {quoted(root)} --accept"
        ) from None
    return files


def find_entry(path: Path) -> ManifestEntry | None:
    """The entry of a file in the nearest manifest above it; None if no manifest should list it."""
    for name in dict.fromkeys((path, path.absolute())):  # a relative path may begin inside a run
        for root in list(name.parents)[:MAX_PARENT_FOLDERS]:
            below = name.relative_to(root).parts
            if not _is_listed(below):
                break
            if (root / MANIFEST).is_file() and (files := read_manifest(root)) is not None:
                return ManifestEntry(root, "/".join(below), files.get("/".join(below), ()))
    return None


def check_file(path: Path, content: bytes | None = None) -> None:
    """Raise an error if a file, or the `content` read from it, does not match its manifest, or if
    something else than a plain file is there, which might block or never end.
    """
    if content is None:
        _check_plain(path)
    entry = find_entry(path)
    if entry is None or not entry.states:
        return
    for _ in range(READ_ATTEMPTS):
        found = digest_or_none(path) if content is None else sha256(content)
        if found is None or found in entry.states:
            return  # the reader of the file reports that it is missing
        before, entry = entry, find_entry(path) or entry
        if entry.states == before.states:
            break
        content = None  # it was replaced meanwhile
    raise DamagedError(
        f"{path}: not what was written there: it is damaged, or was changed; restore it from a "
        f"copy. `regard verify {quoted(entry.root)}` shows what else is damaged and what can be "
        "regenerated"
    )


def check_folder(root: Path) -> None:
    """Raise an error if a file that the manifest of a folder lists is damaged or missing, or if
    something in the folder is no plain file: other libraries would wait for it forever.
    """
    for name in list_files(root):
        _check_plain(root / name)
    for name, states in (read_manifest(root) or {}).items():
        if "#" in name:
            continue
        check_file(root / name)
        if None not in states and not (root / name).is_file():
            raise DamagedError(
                f"{root / name}: missing; restore it from a copy. `regard verify {quoted(root)}` "
                "shows what else is missing or damaged"
            )


def _check_plain(path: Path) -> None:
    """Raise an error if something else than a plain file is at a path."""
    if path.exists() and not path.is_file():
        raise DamagedError(
            f"{path}: a folder, a pipe or a device, and not a plain file; restore it from a copy"
        )


def is_intact(path: Path) -> bool:
    """Whether a file exists and matches its manifest, if it has one."""
    try:
        check_file(path)
    except DamagedError:
        return False
    return path.is_file()


def damaged_parts(root: Path, name: str, parts: Mapping[str, str]) -> list[str]:
    """The parts of the file `name` whose digests in `parts` differ from the listed ones."""
    prefix, listed = part_entry_name(name, ""), read_manifest(root) or {}
    names = [key.removeprefix(prefix) for key in listed if key.startswith(prefix)]
    return [part for part in names if parts.get(part) not in listed[prefix + part]]


def part_entry_name(name: str, part: str) -> str:
    """The name under which a part of a file is listed."""
    return f"{name}#{part}"


def warn_without_manifest(root: Path) -> None:
    """Warn if a run has no manifest, like runs of early versions."""
    if read_manifest(root) is None:
        warnings.warn(
            f"{root}: has no {MANIFEST}, so damage to its files would not be noticed; if you "
            f"trust it: regard verify {quoted(root)} --accept",
            RunWarning,
            stacklevel=1,
        )


@contextmanager
def update_entry(path: Path, new: str | None, parts: Mapping[str, str]) -> Iterator[None]:
    """List the old and the `new` digests of a file, and of `parts` of it, while it is replaced or
    removed.
    """
    entry = find_entry(path)
    if entry is None:
        yield
        return
    root, name = entry.root, entry.name
    after = {name: new, **{part_entry_name(name, part): state for part, state in parts.items()}}
    with _locked(root):
        files = read_manifest(root) or {}
        both = {key: (state, *files.get(key, (None,))) for key, state in after.items()}
        _save(root, files | {key: tuple(dict.fromkeys(states)) for key, states in both.items()})
        yield
        now = files | {key: (state,) for key, state in after.items()}
        with suppress(OSError):  # on a full disk, the entry with both digests stays valid
            _save(root, {key: states for key, states in now.items() if states != (None,)})


def remove_folder_entries(root: Path, below: str) -> None:
    """Remove the entries of all files in the folder `below`, which is gone."""
    with _locked(root):
        files = read_manifest(root) or {}
        kept = {name: one for name, one in files.items() if not name.startswith(f"{below}/")}
        if kept != files:
            _save(root, kept)


def list_files(root: Path) -> Iterator[str]:
    """The paths of all files below `root` to be listed, except in folders with their own
    manifest.
    """
    for folder, folders, files in os.walk(root):
        path, below = Path(folder), Path(folder).relative_to(root)
        names = sorted(name for name in folders if _is_listed((*below.parts, name)))
        folders[:] = [name for name in names if not (path / name / MANIFEST).is_file()]
        for name in sorted(files):
            if _is_listed((*below.parts, name)):
                yield (below / name).as_posix()


def digest_or_none(path: Path) -> str | None:
    """The digest of a file, or None where there is no plain file."""
    try:
        return sha256_of_file(path) if path.is_file() else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedError(f"{path}: cannot be read: {error.strerror}") from None


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a plain file; computed once while its inode, size and times stay the same."""
    with open_plain(path) as file:
        found = os.fstat(file.fileno())
        times = found.st_mtime_ns, found.st_ctime_ns
        identity = found.st_dev, found.st_ino, found.st_size, *times
        digest = _DIGESTS.get(identity) or hashlib.file_digest(file, "sha256").hexdigest()
    if time.time_ns() - max(times) > SETTLED_NS:
        _DIGESTS[identity] = digest
    return digest


def sha256(content: bytes) -> str:
    """SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def open_plain(path: Path) -> BufferedReader:
    """A plain file, open for reading; an `OSError` for a pipe or a device, which could block."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return open(handle, "rb")


@contextmanager
def open_part_file(path: Path) -> Iterator[BinaryIO]:
    """A new file beside `path` to write into; removed at the end unless it was renamed."""
    part_file = path.with_name(f".{path.name}.{threading.get_native_id()}.part")
    try:
        part_file.unlink(missing_ok=True)  # left by a killed thread with the same id
        with part_file.open("xb") as file:  # "x" follows no link
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield file
    finally:
        with suppress(OSError):  # the error that prevents it has been raised already
            part_file.unlink(missing_ok=True)


def sync(file: BinaryIO) -> Path:
    """Write all of a file to the disk, and return its path."""
    file.flush()
    os.fsync(file.fileno())
    return Path(file.name)


def replace_and_sync(part_file: Path, path: Path) -> None:
    """Rename a file that is synced to `path`, and sync the rename: it survives a power cut."""
    part_file.replace(path)
    handle = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _is_listed(below: tuple[str, ...]) -> bool:
    hidden = any(part.startswith(".") for part in below)
    return not hidden and below[-1] != MANIFEST and not any(part in UNLISTED for part in below)


def _own_digest(files: Mapping[str, Digests]) -> str:
    """The digest of a manifest's own content."""
    return sha256(json.dumps({name: list(files[name]) for name in sorted(files)}).encode())


def _save(root: Path, files: Mapping[str, Digests]) -> None:
    listed = {name: list(files[name]) for name in sorted(files)}
    content = {"regard": VERSION, "sha256": _own_digest(files), "files": listed}
    with open_part_file(root / MANIFEST) as file:
        # ASCII, as a name may hold bytes that are not UTF-8
        file.write(f"{json.dumps(content, indent=1)}\n".encode())
        replace_and_sync(sync(file), root / MANIFEST)


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """Hold the lock of a manifest for writing; without effect on a file system without locks."""
    root.mkdir(parents=True, exist_ok=True)
    handle = os.open(root, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
