import gzip
import hashlib
import io
import socket
import tarfile
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from regard.corpora import download
from regard.corpora.download import KnownFile, cache_folder, data_folder, get_file, unzipped
from regard.errors import CorpusError, StorageError

TEXT = b"Ein Mann.\nEine Frau.\n"
SHA = hashlib.sha256(TEXT).hexdigest()
ZIPPED = gzip.compress(TEXT, 1)
PATH = "corpus/train.de.gz"


def tar_of(name, content):
    """A tar archive of one file, compressed."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


ARCHIVE = tar_of("inside/train.de", TEXT)


class Site(BaseHTTPRequestHandler):
    """Answers as the path says; counts the requests."""

    asked: Counter[str]

    def do_GET(self):
        self.asked[self.path] += 1
        status, body, length = {
            "/zipped": (200, ZIPPED, len(ZIPPED)),
            "/plain": (200, TEXT, len(TEXT)),
            "/other": (200, b"another text\n", 13),
            "/short": (200, ZIPPED[:-9], len(ZIPPED)),
            "/damaged": (200, ZIPPED[:-9], len(ZIPPED) - 9),
            "/archive": (200, ARCHIVE, len(ARCHIVE)),
            "/busy": (503, b"", 0),
            "/mends": (200, TEXT, len(TEXT)) if self.asked["/mends"] > 1 else (503, b"", 0),
        }.get(self.path, (404, b"", 0))
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def site(monkeypatch):
    monkeypatch.setattr(download, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(Site, "asked", Counter(), raising=False)
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def folders(monkeypatch, tmp_path):
    """A cache and a data folder of this test's own; no proxy."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("page", ["zipped", "plain"])
def test_fetches_once_and_keeps_it_zipped(site, folders, page):
    file = KnownFile(PATH, SHA, f"{site}/{page}")
    path = get_file(file)
    assert path == folders / "cache" / PATH
    assert gzip.decompress(path.read_bytes()) == TEXT
    assert get_file(file) == path
    assert Site.asked == {f"/{page}": 1}
    assert [p.name for p in path.parent.iterdir()] == ["train.de.gz"]


@pytest.mark.parametrize(
    "content", [ZIPPED, TEXT, gzip.compress(TEXT, 9)], ids=["zipped", "plain", "zipped otherwise"]
)
def test_the_users_own_copy_comes_first(folders, content):
    path = put(folders / "data" / PATH, content)
    assert get_file(KnownFile(PATH, SHA, "http://127.0.0.1:1/never-asked")) == path


def test_the_users_own_copy_must_be_the_right_one(folders):
    path = put(folders / "data" / PATH, b"something else")
    found = hashlib.sha256(b"something else").hexdigest()
    with pytest.raises(CorpusError, match=f"^{path}: not the file .* be {SHA} and is {found}"):
        get_file(KnownFile(PATH, SHA))


def test_the_users_own_copy_may_be_damaged(folders):
    put(folders / "data" / PATH, ZIPPED[:-9])
    with pytest.raises(CorpusError, match="gzip data is damaged"):
        get_file(KnownFile(PATH, SHA))


def test_a_copy_in_the_cache_that_is_damaged_is_fetched_again(site, folders):
    put(folders / "cache" / PATH, ZIPPED[:-9])
    assert gzip.decompress(get_file(KnownFile(PATH, SHA, f"{site}/zipped")).read_bytes()) == TEXT


def test_another_content_is_not_kept(site, folders):
    found = hashlib.sha256(b"another text\n").hexdigest()
    with pytest.raises(CorpusError, match=rf"/other: not .* be {SHA} and is {found}; .* not kept"):
        get_file(KnownFile(PATH, SHA, f"{site}/other"))
    assert not (folders / "cache" / PATH).exists()
    assert Site.asked["/other"] == 1


def test_a_missing_page_is_not_asked_for_again(site, folders):
    with pytest.raises(
        CorpusError, match=r"/gone: cannot be downloaded: the server answers 404 Not"
    ):
        get_file(KnownFile(PATH, SHA, f"{site}/gone"))
    assert Site.asked["/gone"] == 1


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        ("short", "IncompleteRead"),
        ("damaged", "end-of-stream"),
        ("busy", "the server answers 503"),
    ],
)
def test_what_may_pass_is_tried_three_times(site, folders, page, reason):
    cached = folders / "cache" / PATH
    with pytest.raises(
        CorpusError, match=f"/{page}: cannot be downloaded: .*{reason}.* at {cached} yourself"
    ):
        get_file(KnownFile(PATH, SHA, f"{site}/{page}"))
    assert Site.asked[f"/{page}"] == 3
    assert not cached.exists()


def test_an_archive_is_fetched_once_and_its_files_are_kept(site, folders):
    digest = hashlib.sha256(ARCHIVE).hexdigest()
    file = KnownFile(PATH, SHA, archive="corpus/all.tar.gz", member="inside/train.de",
                     archive_url=f"{site}/archive", archive_sha256=digest)  # fmt: skip
    assert unzipped(get_file(file)) == TEXT
    (folders / "cache" / PATH).unlink()
    assert unzipped(get_file(file)) == TEXT
    assert Site.asked["/archive"] == 1
    (folders / "cache" / "corpus" / "all.tar.gz").unlink()
    (folders / "cache" / PATH).unlink()
    with pytest.raises(CorpusError, match=rf"/archive: not .* should be {SHA} .* not kept"):
        get_file(file._replace(archive_sha256=SHA))
    assert not (folders / "cache" / "corpus" / "all.tar.gz").exists()


def test_a_second_attempt_may_succeed(site):
    assert gzip.decompress(get_file(KnownFile(PATH, SHA, f"{site}/mends")).read_bytes()) == TEXT
    assert Site.asked["/mends"] == 2


def test_nobody_listens(monkeypatch):
    monkeypatch.setattr(download, "PAUSES", ())
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/x"
        with pytest.raises(CorpusError, match=r"refused; try again, .* that \$REGARD_DATA names"):
            get_file(KnownFile(PATH, SHA, url))


def test_a_file_without_an_address_must_be_there(folders, monkeypatch):
    file = KnownFile(PATH, SHA, advice="Ask somebody else.")
    with pytest.raises(CorpusError, match=rf"^{PATH}: .* \({folders}/data\).* {SHA}\. Ask"):
        get_file(file)
    monkeypatch.delenv("REGARD_DATA")
    with pytest.raises(CorpusError, match=r"neither in \$REGARD_DATA \(not set\) nor in the cache"):
        get_file(file)


def test_a_cache_that_cannot_be_written_is_an_error(site, folders):
    (folders / "cache").write_text("a file")
    with pytest.raises(StorageError, match=r"train\.de\.gz"):
        get_file(KnownFile(PATH, SHA, f"{site}/plain"))


def test_folders_are_those_of_the_environment(folders, monkeypatch):
    assert (data_folder(), cache_folder()) == (folders / "data", folders / "cache")
    monkeypatch.delenv("REGARD_DATA")
    monkeypatch.delenv("REGARD_CACHE")
    monkeypatch.setenv("HOME", str(folders))
    assert (data_folder(), cache_folder()) == (None, folders / ".cache" / "regard")
