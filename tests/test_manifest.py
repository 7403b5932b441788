import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flips import flip
from regard import manifest
from regard.atomic_io import atomic_file, remove_file, remove_tree, write_atomic
from regard.errors import DamagedError
from regard.manifest import (
    check_file,
    create_manifest,
    find_entry,
    is_intact,
    list_files,
    read_manifest,
    rebuild_manifest,
)


@pytest.fixture
def root(tmp_path):
    create_manifest(tmp_path / "run")
    return tmp_path / "run"


def agrees(root):
    """Whether all files are as they are listed, and all are listed."""
    listed = read_manifest(root)
    names = {name for name in listed if "#" not in name}
    return set(list_files(root)) <= names and all(
        manifest.digest_or_none(root / name) in listed[name] for name in names
    )


def test_what_is_written_is_listed_and_what_is_removed_is_not(root):
    write_atomic(root / "a.txt", b"a", {"half": "123"})
    write_atomic(root / "deep" / "er" / "b.txt", b"b")
    write_atomic(root / "metrics.jsonl", b"grows")
    write_atomic(root / "a.txt", b"A", {"half": "456"})
    assert list(read_manifest(root)) == ["a.txt", "a.txt#half", "deep/er/b.txt"]
    assert read_manifest(root)["a.txt"] == (manifest.sha256(b"A"),)
    assert manifest.damaged_parts(root, "a.txt", {"half": "789"}) == ["half"]
    assert manifest.damaged_parts(root, "a.txt", {}) == ["half"]
    assert manifest.damaged_parts(root, "a.txt", {"half": "456"}) == []
    assert agrees(root)
    remove_file(root / "a.txt")
    remove_tree(root / "deep")
    assert "a.txt" not in read_manifest(root)
    assert not any(name.startswith("deep") for name in read_manifest(root))


def test_a_flipped_bit_is_found_and_a_file_that_nobody_listed_passes(root):
    write_atomic(root / "a.txt", b"abc")
    (root / "own.txt").write_bytes(b"mine")
    check_file(root / "own.txt")
    check_file(root / "a.txt", b"abc")
    flip(root / "a.txt", 1)
    with pytest.raises(DamagedError, match=r"a\.txt: not what was written there: it is damaged"):
        check_file(root / "a.txt")
    assert not is_intact(root / "a.txt")


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("change", ["new", "replace", "remove"])
def test_killed_at_any_moment_the_files_agree_with_the_manifest(root, change, monkeypatch):
    path, replace, moments = root / "a.txt", manifest.replace_and_sync, 0
    if change != "new":
        write_atomic(path, b"before")

    def work():
        if change == "remove":
            remove_file(path)
        else:
            write_atomic(path, b"after")

    for dies_at in range(6):  # each step that changes the folder, before it and after it
        calls = []

        def dying(part_file, place, calls=calls, dies_at=dies_at):
            calls.append(place)
            if len(calls) * 2 - 1 > dies_at:
                raise Killed
            replace(part_file, place)
            if len(calls) * 2 > dies_at:
                raise Killed

        monkeypatch.setattr(manifest, "replace_and_sync", dying)
        monkeypatch.setattr("regard.atomic_io.replace_and_sync", dying)
        try:
            work()
        except Killed:
            moments += 1
        assert agrees(root)
    assert moments >= 3
    monkeypatch.undo()
    work()
    left = () if change == "remove" else (manifest.sha256(b"after"),)
    assert read_manifest(root).get("a.txt", ()) == left


def test_many_write_at_once(root):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: write_atomic(root / f"{n % 20}.txt", b"%d" % n), range(60)))
    assert len(read_manifest(root)) == 20
    assert agrees(root)


def test_one_who_reads_while_another_writes_is_not_misled(root, monkeypatch):
    path = root / "a.txt"
    write_atomic(path, b"old")
    seen = []

    def slow(file):
        seen.append(file)
        if len(seen) == 1:  # between the manifest that was read and the file that is
            write_atomic(path, b"new")
        return manifest.sha256(path.read_bytes())

    monkeypatch.setattr(manifest, "digest_or_none", slow)
    check_file(path)
    assert len(seen) == 2


def test_hidden_folders_and_folders_with_a_manifest_of_their_own_are_not_of_it(root):
    write_atomic(root / ".making" / "a.txt", b"a")
    create_manifest(root / "export")
    write_atomic(root / "export" / "b.txt", b"b")
    assert read_manifest(root) == {}
    assert list(read_manifest(root / "export")) == ["b.txt"]
    rebuild_manifest(root, {})
    assert read_manifest(root) == {}


def test_a_manifest_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "my page"}')
    write_atomic(tmp_path / "out" / "a.txt", b"a")
    assert find_entry(tmp_path / "out" / "a.txt") is None
    assert (tmp_path / "manifest.json").read_text() == '{"name": "my page"}'


def test_a_damaged_manifest(root):
    write_atomic(root / "recipe.yaml", b"name: x")
    raw = json.loads((root / "manifest.json").read_text())
    raw["files"]["recipe.yaml"] = ["0" * 64]
    odd = {"recipe.yaml": [{}, 5]}
    forged = {"regard": 1, "sha256": manifest._own_digest(odd), "files": odd}
    for content in (json.dumps(raw), json.dumps(forged), "[]", "{", "[" * 100_000):
        (root / "manifest.json").write_text(content)
        with pytest.raises(DamagedError, match=r"manifest\.json: damaged, .*verify .* --accept"):
            check_file(root / "recipe.yaml")


def test_stock_is_taken_of_files_alone_whatever_their_names(root):
    os.mkfifo(root / "pipe")
    (root / "endless").symlink_to("/dev/zero")
    (root / "nowhere").symlink_to(root / "gone")
    odd = os.fsdecode(b"\xff.txt")
    (root / odd).write_text("x")
    rebuild_manifest(root, {})
    assert read_manifest(root) == {odd: (manifest.sha256(b"x"),)}


def test_a_name_from_inside_a_run_is_checked_too(root, monkeypatch):
    write_atomic(root / "weights" / "best.bin", b"right")
    flip(root / "weights" / "best.bin")
    monkeypatch.chdir(root / "weights")
    with pytest.raises(DamagedError, match=r"best\.bin: not what was written there"):
        check_file(Path("best.bin"))


def test_a_failed_write_changes_nothing(root):
    write_atomic(root / "a.txt", b"old")
    with pytest.raises(TypeError), atomic_file(root / "a.txt") as file:
        file.write("no bytes")
    assert read_manifest(root) == {"a.txt": (manifest.sha256(b"old"),)}
    assert agrees(root)


def test_a_file_is_read_once_for_its_digest_until_it_changes(root, monkeypatch):
    read, compute = [], manifest.hashlib.file_digest
    monkeypatch.setattr(
        manifest.hashlib, "file_digest", lambda *of: read.append(of) or compute(*of)
    )
    path = root / "a.txt"
    for content in (b"a", b"bc"):
        path.write_bytes(content)
        for settled in (10**12, -(10**12)):  # before a change could be seen by the clock, and after
            monkeypatch.setattr(manifest, "SETTLED_NS", settled)
            read.clear()
            assert {manifest.sha256_of_file(path) for _ in range(3)} == {manifest.sha256(content)}
            assert len(read) == (3 if settled > 0 else 1)


@pytest.mark.parametrize("put", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_plain_file_is_damaged(root, put):
    put(root / "a.txt")
    with pytest.raises(DamagedError, match="a folder, a pipe or a device, and not a plain file"):
        check_file(root / "a.txt")
    assert not is_intact(root / "a.txt")
