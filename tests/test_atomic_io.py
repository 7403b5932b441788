import errno
import os
from pathlib import Path

import pytest

from regard import atomic_io
from regard.atomic_io import (
    atomic_file,
    plain_lines,
    remove_part_files,
    storage_error,
    temporary_folder,
    write_atomic,
)
from regard.errors import StorageError


def test_writes_all_and_makes_the_folder(tmp_path):
    write_atomic(tmp_path / "new" / "f.txt", b"abc")
    assert (tmp_path / "new" / "f.txt").read_bytes() == b"abc"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["f.txt"]


def test_a_failure_leaves_the_old_file(tmp_path):
    path = tmp_path / "f.txt"
    write_atomic(path, b"old")
    with pytest.raises(TypeError), atomic_file(path) as file:
        file.writelines([b"ne", "not bytes"])
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f.txt"]


def test_a_full_disk_is_named(tmp_path):
    error = storage_error(tmp_path / "f", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert isinstance(error, StorageError)
    assert str(error).startswith(f"{tmp_path}/f: the disk is full")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_real_full_device(tmp_path):
    with (
        pytest.raises(StorageError, match="the disk is full"),
        atomic_file(tmp_path / "f"),
        open("/dev/full", "wb") as full,
    ):
        full.write(b"x" * 10_000)


def test_a_folder_that_is_a_file(tmp_path):
    file = tmp_path / "f"
    file.touch()
    for make in (lambda: write_atomic(file / "g", b""), temporary_folder(file).__enter__):
        with pytest.raises(StorageError, match=f"{file}: not a folder, which is needed there"):
            make()


def test_a_pipe_stays_a_pipe(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(StorageError, match="cannot be written: a pipe or a device; name a pla"):
            write_atomic(path, b"x")
    assert pipe.is_fifo()
    assert link.is_symlink()


def test_a_temporary_folder_is_gone_afterwards_with_those_of_killed_processes(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(atomic_io, "STALE_SECONDS", -1)
    left = tmp_path / f"{atomic_io.TEMPORARY_PREFIX}left"
    left.mkdir()
    with temporary_folder(tmp_path) as held, temporary_folder(tmp_path) as other:
        assert held.is_dir()  # it is locked, so the other does not take it for a leftover
        assert other.is_dir()
        assert not left.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_full_while_a_temporary_folder_is_filled_is_named(tmp_path):
    full = OSError(errno.ENOSPC, "No space left on device")
    with pytest.raises(StorageError, match=r"the disk is full"), temporary_folder(tmp_path):
        raise full


def test_unfinished_files_are_removed_and_pipes_left_alone(tmp_path):
    left, pipe, other = tmp_path / ".a.1.part", tmp_path / ".b.1.part", tmp_path / ".c.part"
    left.touch(), other.touch()
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDWR)  # else the test would wait where it should fail
    remove_part_files(tmp_path)
    os.close(handle)
    assert {*tmp_path.iterdir()} == {pipe, other}


def test_lines_of_a_plain_file_within_a_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_LIMITS", "json=4")
    (tmp_path / "lines").write_bytes(b"ab\n\xe2\x80\xa8\n\nend")
    assert list(plain_lines(tmp_path / "lines")) == [b"ab\n", b"\xe2\x80\xa8\n", b"\n", b"end"]
    (tmp_path / "lines").write_bytes(b"a\nabcd\n")
    with pytest.raises(OSError, match="a line larger than 4B"):
        list(plain_lines(tmp_path / "lines"))
    os.mkfifo(tmp_path / "pipe")
    for file in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a plain file"):
            list(plain_lines(file))
