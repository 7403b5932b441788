"""Files known by their checksum: found in the user's data folder, or downloaded once and cached."""

import gzip
import hashlib
import io
import lzma
import os
import tarfile
import time
import zlib
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import IO, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from regard.atomic_io import write_atomic
from regard.errors import CorpusError
from regard.size_limits import max_bytes, too_large

TIMEOUT, PAUSES = 30.0, (1.0, 4.0)  # seconds: for an attempt, and before each further one
RETRYABLE_STATUSES = {408, 429, 500, 502, 503, 504}  # HTTP errors that may be temporary
FAST = 1  # compression level of gzip: the best takes ten times as long

_GZIP_MAGIC = b"\x1f\x8b"


class KnownFile(NamedTuple):
    path: str  # its path in a data folder, where it is gzipped
    sha256: str  # of its unzipped contents: the same text can be compressed in many ways
    url: str | None = None  # where it can be fetched, gzipped or not; None if nowhere
    advice: str = ""  # what to do if it is missing and cannot be downloaded
    archive: str | None = None  # a tar archive under a data folder that may hold it instead
    member: str = ""  # its path inside the archive, where it may be gzipped
    archive_url: str | None = None  # where the archive can be fetched
    archive_sha256: str = ""  # of the archive that is fetched


def data_folder() -> Path | None:
    """The folder with the user's data, if the environment names one: $REGARD_DATA."""
    named = os.environ.get("REGARD_DATA")
    return Path(named) if named else None


def cache_folder() -> Path:
    """The folder that keeps downloads: $REGARD_CACHE, or `~/.cache/regard`."""
    named = os.environ.get("REGARD_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "regard"


def find_here(*paths: str | None) -> Path | None:
    """The first of some paths that exists in the data folder or in the cache."""
    folders = [folder for folder in (data_folder(), cache_folder()) if folder]
    places = (folder / path for folder in folders for path in paths if path)
    return next((place for place in places if place.exists()), None)


def find_folder(path: str) -> Path | None:
    """The folder of a path that exists in the data folder or in the cache."""
    found = find_here(path)
    return found.parent if found else None


def get_file(file: KnownFile) -> Path:
    """The path of the file: in the data folder, or in the cache; downloaded if necessary."""
    folder, cached = data_folder(), cache_folder() / file.path
    if folder is not None and (folder / file.path).is_file():
        path = folder / file.path
        found = _checksum(path)
        if found != file.sha256:
            raise CorpusError(
                f"{path}: not the file that is known by this name: the sha256 of its contents, "
                f"unzipped, should be {file.sha256} and is {found}; replace it, or remove it to "
                "have the right one downloaded"
            )
        return path
    if cached.is_file() and _checksum(cached) == file.sha256:
        return cached
    if (archive := _find_archive(file)) is not None:
        return _extract(archive, file, cached)
    if file.url is None:
        raise CorpusError(
            f"{file.archive or file.path}: found neither in $REGARD_DATA ({folder or 'not set'}) "
            f"nor in the cache ({cache_folder()}), and it cannot be downloaded; put it there: the "
            f"sha256 of its {_contents(file)} is {file.sha256}{file.advice and '. '}{file.advice}"
        )
    write_atomic(cached, gzip.compress(_fetch(file, cached), FAST, mtime=0))
    return cached


def unzipped(path: Path) -> bytes:
    """The contents of a file that `get_file` found."""
    return _unzipped(path.read_bytes())


def _find_archive(file: KnownFile) -> Path | None:
    """The archive that holds a file: in the data folder, or in the cache; downloaded if necessary.
    None if there is none.
    """
    if file.archive is None:
        return None
    folder, cached = data_folder(), cache_folder() / file.archive
    if folder is not None and (folder / file.archive).is_file():
        return folder / file.archive
    if cached.is_file():
        return cached
    if file.archive_url is None:
        return None
    content = _download(file.archive_url, cached, file.archive, bytes)
    _check_fetched(file.archive_url, content, file.archive_sha256, "its contents")
    write_atomic(cached, content)
    return cached


def _contents(file: KnownFile) -> str:
    return f"file {file.member} in it" if file.archive else "contents, unzipped,"


def _extract(archive: Path, file: KnownFile, cached: Path) -> Path:
    """The file out of an archive, checked and kept in the cache."""
    try:
        with tarfile.open(archive) as opened:
            member = opened.extractfile(file.member)
            packed = _read_all(member, file.member) if member is not None else b""
            content = _unzipped(packed)
    except (OSError, EOFError, KeyError, tarfile.TarError, lzma.LZMAError, zlib.error) as error:
        raise CorpusError(
            f"{archive}: {file.member} cannot be read from it ({error}); copy the archive again"
        ) from None
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise CorpusError(
            f"{archive}: its {file.member} is not the file that is known by this name: the sha256 "
            f"should be {file.sha256} and is {found}; replace the archive, or remove it"
        )
    write_atomic(cached, gzip.compress(content, FAST, mtime=0))
    return cached


def _checksum(path: Path) -> str:
    """The sha256 of the unzipped contents, or what is wrong with the file."""
    try:
        return hashlib.sha256(_unzipped(path.read_bytes())).hexdigest()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        return f"unknown: the gzip data is damaged ({error})"
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror or error}") from error


def _unzipped(content: bytes) -> bytes:
    if not content.startswith(_GZIP_MAGIC):
        return content
    return _read_all(gzip.GzipFile(fileobj=io.BytesIO(content)), "a file, unzipped")


def _read_all(stream: IO[bytes] | gzip.GzipFile, name: str) -> bytes:
    """The rest of a stream, unless that is too large."""
    most = max_bytes("examples")
    content = stream.read(most + 1)
    if len(content) > most:
        raise CorpusError(f"{name}: {too_large('examples')}")
    return content


def _fetch(file: KnownFile, cached: Path) -> bytes:
    """The contents of the file, unzipped, from the network."""
    content = _download(str(file.url), cached, file.path, _unzipped, file.advice)
    _check_fetched(str(file.url), content, file.sha256, "its contents, unzipped,")
    return content


def _download(
    url: str, cached: Path, path: str, decode: Callable[[bytes], bytes], advice: str = ""
) -> bytes:
    """The decoded contents of an address. Errors advise to put the file at `path` or `cached`, and
    end with `advice`.
    """
    for pause in (*PAUSES, None):
        try:
            request = Request(url, headers={"User-Agent": "regard"})
            with urlopen(request, timeout=TIMEOUT) as answer:
                return decode(answer.read())
        except (OSError, HTTPException, EOFError, zlib.error) as error:
            lasting = isinstance(error, HTTPError) and error.code not in RETRYABLE_STATUSES
            if lasting or pause is None:
                raise CorpusError(
                    f"{url}: cannot be downloaded: {_reason(error)}; try again, or put the file at "
                    f"{cached} yourself, or at {path} in a folder that $REGARD_DATA names"
                    f"{advice and '. '}{advice}"
                ) from error
            time.sleep(pause)
    raise AssertionError("the last attempt has no pause")


def _check_fetched(url: str, content: bytes, sha256: str, what: str) -> None:
    """An error if something else was downloaded."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise CorpusError(
            f"{url}: not the file that was expected: the sha256 of {what} should be {sha256} and "
            f"is {found}; it was not kept"
        )


def _reason(error: Exception) -> str:
    """What went wrong, in a few words."""
    if isinstance(error, HTTPError):
        return f"the server answers {error.code} {error.reason}"
    return str(getattr(error, "reason", "") or error) or type(error).__name__
