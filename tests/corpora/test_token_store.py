import errno
import os
import tracemalloc

import numpy as np
import pytest

from regard.corpora.token_store import (
    PairsFooter,
    TokenChunk,
    TokenStore,
    fingerprint,
    write_store,
)
from regard.errors import CorpusError, StorageError

FINGERPRINT_KEY = "made-for-this"


def chunks(*sizes):
    """Rows of 0 to 4 source ids and 1 to 7 target ids, with their number in each."""
    row = 0
    for size in sizes:
        numbers = range(row, row + size)
        row += size
        yield TokenChunk(
            [[n] * (n % 5) for n in numbers],
            [[n] * (n % 7 + 1) for n in numbers],
        )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "train.pairs"


def written(path, *sizes):
    write_store(path, chunks(*sizes), FINGERPRINT_KEY)
    return TokenStore.open(path, FINGERPRINT_KEY)


@pytest.mark.parametrize("sizes", [(30,), (1,) * 30, (7, 23), (8, 8, 8, 6), (0, 30, 0)])
def test_rows_come_back_whatever_the_chunks(path, sizes):
    store = written(path, *sizes)
    rows = np.array([29, 0, 8, 7, 7, 15, 16])
    assert len(store) == 30
    source, target = store.take(rows)
    assert source.ids.dtype == target.ids.dtype == np.int32
    assert [row.tolist() for row in source.rows()] == [[n] * (n % 5) for n in rows]
    assert [row.tolist() for row in target.rows()] == [[n] * (n % 7 + 1) for n in rows]


def test_lengths(path):
    lengths = written(path, 30).lengths()
    assert lengths.source.dtype == lengths.target.dtype == np.int32
    assert lengths.source.tolist() == [n % 5 for n in range(30)]
    assert lengths.target.tolist() == [n % 7 + 1 for n in range(30)]


def test_empty_store(path):
    store = written(path)
    assert len(store) == 0
    assert store.lengths().source.shape == (0,)
    assert store.take(np.array([], np.int64)).source.rows() == []


@pytest.mark.parametrize("rows", [[-1], [0, 5], [7, 2]])
def test_rows_that_are_not_there(path, rows):
    store = written(path, 5)
    expected = f"rows {min(rows)} to {max(rows)} asked for, of 5"
    with pytest.raises(IndexError, match=expected):
        store.take(np.array(rows))


def test_an_open_store_outlives_its_file(path):
    store = written(path, 20)
    path.unlink()
    assert store.take(np.array([19])).target.ids.tolist() == [19] * 6


def test_reading_takes_little_memory(path):
    written(path, *[5000] * 8)
    rows = np.arange(40_000)
    tracemalloc.start()
    store = TokenStore.open(path)
    total = sum(len(store.take(part).target.ids) for part in np.split(rows, 200))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == store.lengths().target.sum()
    assert peak < path.stat().st_size / 3


def test_sides_must_be_equally_many(path):
    with pytest.raises(ValueError, match="argument 2 is longer"):
        write_store(path, [TokenChunk([[1]], [[2], [3]])], FINGERPRINT_KEY)


class TestOpening:
    def error(self, path, mark=None):
        with pytest.raises(CorpusError) as caught:
            TokenStore.open(path, mark)
        return str(caught.value)

    def test_missing(self, path):
        assert self.error(path) == f"{path}: no such token store; prepare the corpus first"
        assert not PairsFooter.matches(path, FINGERPRINT_KEY)

    @pytest.mark.parametrize("keep", [0.0, 0.01, 0.5, 0.99])
    def test_cut_short(self, path, keep):
        written(path, 500)
        content = path.read_bytes()
        path.write_bytes(content[: int(keep * len(content))])
        found = self.error(path)
        assert found.startswith(f"{path}: not a complete token store (")
        assert found.endswith("); remove it and prepare the corpus again")
        assert not PairsFooter.matches(path, FINGERPRINT_KEY)

    def test_something_else(self, path):
        path.write_bytes(b"not pairs at all" * 100)
        assert "not a complete token store" in self.error(path)

    def test_a_folder(self, tmp_path):
        assert "not a complete token store" in self.error(tmp_path)

    def test_other_fingerprint(self, path):
        written(path, 5)
        assert self.error(path, "another") == (
            f"{path}: made from another text or with another tokenizer: its fingerprint is "
            f"{FINGERPRINT_KEY!r}, asked for 'another'; prepare the corpus again"
        )
        assert PairsFooter.matches(path, FINGERPRINT_KEY)
        assert not PairsFooter.matches(path, "another")


class TestWriting:
    def test_what_fails_leaves_the_old_store(self, path):
        def failing():
            yield from chunks(20)
            raise CorpusError("line 21 is bad")

        written(path, 5)
        with pytest.raises(CorpusError, match=r"^line 21 is bad$"):
            write_store(path, failing(), "new")
        assert len(TokenStore.open(path, FINGERPRINT_KEY)) == 5
        assert os.listdir(path.parent) == [path.name]

    def test_interrupted(self, path):
        def interrupted():
            yield from chunks(20)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            write_store(path, interrupted(), FINGERPRINT_KEY)
        assert os.listdir(path.parent) == []

    def test_disk_full(self, path, monkeypatch):
        def full(_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match=f"{path}: the disk is full"):
            write_store(path, chunks(20), FINGERPRINT_KEY)
        assert os.listdir(path.parent) == []

    def test_the_system_refuses_midway(self, path):
        resource = pytest.importorskip("resource", reason="file sizes can be limited on Unix only")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
        try:
            with pytest.raises(StorageError) as caught:
                write_store(path, chunks(*[5000] * 8), FINGERPRINT_KEY)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert str(caught.value) == f"{path}: cannot be written: File too large"
        assert os.listdir(path.parent) == []

    def test_no_folder(self, tmp_path):
        (tmp_path / "file").touch()
        path = tmp_path / "file" / "a.pairs"
        with pytest.raises(StorageError, match=f"{path.parent}: not a folder"):
            write_store(path, chunks(5), FINGERPRINT_KEY)


def test_fingerprint():
    marks = [fingerprint(), fingerprint("ab"), fingerprint("a", "b"), fingerprint("b", "a")]
    assert len(set(marks)) == 4
    assert all(len(mark) == 64 for mark in marks)
    assert fingerprint("a", "b") == marks[2]
