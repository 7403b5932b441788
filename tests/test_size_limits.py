import gzip
import lzma
from functools import partial

import pytest

from regard.corpora.corpus import ReadReport
from regard.corpora.download import unzipped
from regard.corpora.readers.pair_files import FilesSettings, read_bytes, read_lines, read_pairs
from regard.corpora.running_text import RunningTextSettings, read_splits
from regard.errors import RegardError, SettingsError
from regard.images.picture_files import read_picture
from regard.json_files import read_json
from regard.size_limits import VARIABLE, max_bytes, too_large
from regard.tasks.forecast.series import read_series
from regard.yaml_files import read_yaml


@pytest.mark.parametrize(
    ("setting", "size"),
    [
        ("", 16 << 20),
        ("document=7", 7),
        ("json=1, document=3kib", 3 << 10),
        ("document=2G", 2 << 30),
    ],
)
def test_a_limit_is_set_by_the_environment(monkeypatch, setting, size):
    monkeypatch.setenv(VARIABLE, setting)
    assert max_bytes("document") == size


@pytest.mark.parametrize("setting", ["document", "documents=1", "json=-1", "json=1.5G", "json=9E"])
def test_what_is_no_limit_is_an_error(monkeypatch, setting):
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(SettingsError, match=rf"^REGARD_LIMITS: '{setting}' is not a limit .*text,"):
        max_bytes("json")


def test_a_message_names_the_limit_and_how_to_raise_it(monkeypatch):
    monkeypatch.setenv(VARIABLE, "document=100")
    advice = "larger than 100B, the limit of a document; to read more: REGARD_LIMITS=document=400B"
    assert too_large("document") == advice


def pairs(path, **settings):
    return list(read_pairs(FilesSettings(data=path, **settings), ("fr", "en"), ReadReport()))


def text(path, **settings):
    return list(read_splits(RunningTextSettings(train=path, **settings))["train"]())


TMX = "<tmx><body><tu><tuv xml:lang='fr'><seg>%s</seg></tuv></tu></body></tmx>"
LONG = "a" * 100_000
READERS = {  # a reader, the content of its file, and the limit that it meets
    "document": (read_bytes, LONG, "document=9K"),
    "lines": (lambda path: list(read_lines(path)), "a\n" * 10_000, "text=9K"),
    "held lines": (lambda path: list(read_lines(path, limit="examples")), LONG, "examples=9K"),
    "line": (lambda path: list(read_lines(path)), LONG, "line=9K"),
    "row of CSV": (partial(pairs, format="csv"), '"' + "a\n" * 30_000, "line=9K"),
    "unit of TMX": (partial(pairs, format="tmx"), TMX % (3 * LONG), "line=9K"),
    "line of a text": (partial(text, documents="line"), LONG, "line=9K"),
    "paragraph": (partial(text, documents="paragraph"), LONG, "line=9K"),
    "series": (lambda path: read_series(path, (0,)), "1\n" * 10_000, "examples=9K"),
}


@pytest.mark.parametrize("name", READERS)
def test_every_reader_of_packed_files_has_a_limit(tmp_path, monkeypatch, name):
    read, content, limit = READERS[name]
    for pack in (gzip.compress, lzma.compress, bytes):
        path = tmp_path / "a.tsv"
        path.write_bytes(pack(content.encode()))
        monkeypatch.setenv(VARIABLE, limit)
        with pytest.raises(RegardError, match=rf"a\.tsv: .*larger than .*{limit.split('=')[0]}="):
            read(str(path))


@pytest.mark.parametrize(
    ("read", "limit"),
    [
        (partial(read_json, schema=str), "json"),
        (read_yaml, "yaml"),
        (read_picture, "picture"),
        (unzipped, "examples"),
    ],
)
def test_files_that_are_read_whole_have_a_limit(tmp_path, monkeypatch, read, limit):
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(b"a" * 10_000) if limit == "examples" else b"a" * 10_000)
    monkeypatch.setenv(VARIABLE, f"{limit}=9K")
    with pytest.raises((OSError, RegardError), match=f"larger than 9KiB.*{limit}=36KiB"):
        read(path)
