import gzip
import hashlib
import io
import lzma
import re
import tarfile
from urllib.error import URLError

import pytest

from regard.corpora import download, running_text
from regard.corpora.download import data_folder
from regard.corpora.running_text import (
    TEXTS,
    RunningTextSettings,
    TextPart,
    read_splits,
    text_lines,
)
from regard.errors import CorpusError


@pytest.fixture
def put(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return str(path)

    return write


def read(split="train", **settings):
    return list(read_splits(RunningTextSettings(**settings))[split]())


def text_of(parts):
    return "".join(part.text for part in parts)


@pytest.mark.parametrize("size", [1, 3, 7, 1 << 20])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress])
def test_a_text_comes_back_whole_in_parts_of_any_size(put, monkeypatch, size, compress):
    monkeypatch.setattr(running_text, "PART_BYTES", size)
    text = "Été\n\n  Jane  visits\r\nAfrica. 😀\rno end"
    path = put("a", compress(b"\xef\xbb\xbf" + text.encode()))
    parts = read(train=path, valid=path)
    assert text_of(parts) == text.replace("\r\n", "\n")
    assert not any(part.ends_document for part in parts)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one\ntwo\nthree\n", ["one\n", "two\n", "three\n"]),
        ("a text", ["a text"]),  # its last word stays whole
        ("one two three four", ["one two", " three", " four"]),
    ],
)
def test_parts_are_cut_behind_line_ends_or_before_spaces(text, parts, put, monkeypatch):
    monkeypatch.setattr(running_text, "PART_BYTES", 6)
    path = put("a", text)
    assert [part.text for part in read(train=path, valid=path)] == parts


@pytest.mark.parametrize(
    ("documents", "expected"),
    [
        ("text", [" a b \nc\n\n\nd", "e\n"]),
        ("file", [" a b \nc\n\n\nd|", "e\n|"]),
        ("line", ["a b|", "c|", "|", "|", "d|", "e|"]),
        ("paragraph", ["a b \nc|", "d|", "e|"]),
    ],
)
def test_documents_are_what_the_settings_say(put, documents, expected):
    files = (put("a", " a b \nc\n\n\nd"), put("b", "e\n"))
    parts = read(train=files, valid=files[0], documents=documents)
    marked = "".join(f"{part.text}|" if part.ends_document else part.text for part in parts)
    assert marked == "".join(expected)


def test_shares_are_cut_off_the_end_at_a_character(put):
    path = put("a", "0123456789\n" * 10)  # 110 characters
    whole = "0123456789\n" * 10
    settings = {"train": path, "valid_share": 0.25, "test_share": 0.1}
    train, valid, test = (text_of(read(name, **settings)) for name in ("train", "valid", "test"))
    assert train + valid + test == whole
    assert (len(train), len(valid), len(test)) == (71, 28, 11)
    assert set(read_splits(RunningTextSettings(train=path))) == {"train", "valid"}
    assert len(text_of(read("valid", train=path))) == 11


def test_documents_are_not_cut_in_two(put):
    path = put("a", "".join(f"line {n:02}\n" for n in range(20)))
    train, valid = (read(name, train=path, documents="line") for name in ("train", "valid"))
    assert [part.text for part in train + valid] == [f"line {n:02}" for n in range(20)]
    assert len(valid) == 2
    assert all(part.ends_document for part in train + valid)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no text: it is empty"),
        (" \n\n\t", "holds no text: it is blank"),
        (b"%PDF-1.7 \n", "not a text file but a PDF"),
        ("a\nb".encode("utf-16"), "UTF-16"),
        (b"one\ntwo\xe9\nthree\n", "line 2: not UTF-8: byte 4 of the line is 0xe9"),
        (b"one\ntwo \xc3", "not UTF-8: it ends inside a character"),
        (lzma.compress(b"one\n" * 99)[:-20], "the xz data ends too early"),
    ],
)
def test_what_is_no_text_is_refused(put, content, message):
    path = put("a", content)
    with pytest.raises(CorpusError, match=message) as caught:
        read(train=path, valid=path)
    assert str(caught.value).startswith(path)


def test_a_text_too_short_to_cut_is_refused(put):
    with pytest.raises(CorpusError, match="3 characters is too short"):
        read("valid", train=put("a", "abc\n"), documents="line")


def test_lines_of_a_text_keep_their_ends():
    parts = [TextPart("a\nb\n", ends_document=False), TextPart("c", ends_document=True)]
    assert list(text_lines(parts)) == ["a\n", "b\n", "c"]


@pytest.fixture
def archive(monkeypatch, tmp_path):
    """A data folder with an archive of small files that pass for PTB's."""
    made = io.BytesIO()
    files = {}
    with tarfile.open(fileobj=made, mode="w:xz") as tar:
        for name, file in TEXTS["ptb"].files.items():
            content = f" {name} it was <unk> \n and N \n".encode()
            info = tarfile.TarInfo(file.member)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
            files[name] = file._replace(sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(running_text.TEXTS, "ptb", TEXTS["ptb"]._replace(files=files))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "data" / "language" / "ptb.tar.xz"
    path.parent.mkdir(parents=True)
    path.write_bytes(made.getvalue())
    return path


def test_a_corpus_by_name_is_read_out_of_its_archive(archive):
    expected = [TextPart("test it was <unk>", True), TextPart("and N", True)]
    assert read("test", name="ptb") == expected
    archive.unlink()  # its files are in the cache now
    assert read("test", name="ptb") == expected
    assert text_of(read("valid", name="ptb", documents="text")).startswith(" valid it was <unk> \n")


def test_an_archive_with_another_text_is_refused(archive, monkeypatch):
    files = {name: file._replace(sha256="0" * 64) for name, file in TEXTS["ptb"].files.items()}
    monkeypatch.setitem(running_text.TEXTS, "ptb", TEXTS["ptb"]._replace(files=files))
    with pytest.raises(CorpusError, match=r"ptb.tar.xz: its ptb/ptb.train.txt is not the file"):
        read(name="ptb")


def test_a_damaged_archive_is_refused(archive):
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(CorpusError, match=r"ptb.tar.xz: ptb/ptb.train.txt cannot be read from it"):
        read(name="ptb")


def here(name):
    folder = data_folder()
    missing = folder is None or not (folder / f"language/{name}.tar.xz").is_file()
    return pytest.mark.skipif(missing, reason=f"$REGARD_DATA holds no language/{name}.tar.xz")


@pytest.mark.parametrize(
    "name", [name for name, text in TEXTS.items() if text.files["train"].archive]
)
def test_a_corpus_that_cannot_be_fetched_says_where_it_would_be_found(name, monkeypatch, tmp_path):
    def refuse(request, timeout):
        raise URLError("no network")

    monkeypatch.setattr(download, "urlopen", refuse)
    monkeypatch.setattr(download, "PAUSES", ())
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    file = TEXTS[name].files["train"]
    with pytest.raises(CorpusError) as caught:
        read(name=name)
    assert (file.url is None) == ("it cannot be downloaded" in str(caught.value))
    assert (file.url or file.sha256) in str(caught.value)
    assert f"Put an archive with {file.member} at {file.archive} in $REGARD" in str(caught.value)


@pytest.mark.parametrize("name", TEXTS)
def test_known_files_have_checksums_and_public_addresses(name):
    for file in TEXTS[name].files.values():
        assert re.fullmatch("[0-9a-f]{64}", file.sha256)
        assert file.url is None or file.url.startswith("https://raw.githubusercontent.com/")


@here("ptb")
def test_the_treebank_has_as_many_words_as_everybody_counts(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    counts = {}
    for name, read_split in read_splits(RunningTextSettings(name="ptb")).items():
        counts[name] = sum(len(part.text.split()) + part.ends_document for part in read_split())
    assert counts == {"train": 929_589, "valid": 73_760, "test": 82_430}


@here("tinyshakespeare")
def test_shakespeare_is_cut_as_others_cut_it(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    splits = read_splits(RunningTextSettings(name="tinyshakespeare"))
    lengths = {name: len(text_of(read_split())) for name, read_split in splits.items()}
    assert lengths == {"train": 1_003_854, "valid": 111_540}


@pytest.mark.parametrize("name", ["trec6-texts", "sst2-texts"])
def test_texts_of_labelled_corpora_come_without_their_labels(name, tmp_path, monkeypatch):
    known, files = TEXTS[name], {}
    for split, file in known.files.items():
        rows = (["label", *["cell"] * (known.column - 1), f"{split} {n} ?"] for n in range(20))
        content = "".join("\t".join(row) + "\n" for row in rows).encode()
        path = tmp_path / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        files[split] = file._replace(sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(running_text.TEXTS, name, known._replace(files=files))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path))
    assert read("test", name=name)[:2] == [TextPart("test 0 ?", True), TextPart("test 1 ?", True)]
    held_out = text_of(read("valid", name=name)).split()[0]
    assert held_out == ("train" if "valid" not in known.files else "valid")
