import gzip
import io
import zipfile

import pytest

from regard.corpora.readers.pair_files import read_bytes, read_lines
from regard.errors import CorpusError


def zipped():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("word/document.xml", "<w:t>Elle part.</w:t>")
    return made.getvalue()


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (zipped(), r"a zip archive, or a document that is one \(\.docx"),
        (gzip.compress(zipped()), "a zip archive"),
        (b"%PDF-1.7\n", "a PDF"),
        (b"\x7fELF\x02", "a program"),
        ("Elle part.\n".encode("utf-16"), "UTF-16.*iconv -f UTF-16"),
        ("Elle part.\n".encode("utf-16-le"), "11 of its first 22 bytes are null bytes"),
        (bytes(range(1, 256)) * 2, "52 of its first 510 bytes are control characters"),
    ],
    ids=["zip", "zip in gzip", "PDF", "program", "UTF-16", "UTF-16 without mark", "control"],
)
def test_what_is_no_text_is_refused_by_every_reader(tmp_path, content, found):
    file = tmp_path / "letter.docx"
    file.write_bytes(content)
    for read in (read_bytes, lambda path: list(read_lines(path, replace=True))):
        with pytest.raises(CorpusError, match=f"letter.docx: .*{found}"):
            read(file)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"Elle\0part.\n",
        b"\x1b[1mElle part.\x1b[0m\x0c\r\n" * 9,  # with the colours of a terminal
        "\x93Été\x94 où ça?\n".encode("latin-1") * 9,
    ],
)
def test_odd_text_is_read_as_text(tmp_path, content):
    file = tmp_path / "a.txt"
    file.write_bytes(content)
    assert read_bytes(file) == content
