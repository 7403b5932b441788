import pytest

from regard.errors import CorpusError
from regard.tasks.translation.documents.document_formats import (
    DOCUMENT_FORMATS,
    FORMAT_OF_SUFFIX,
    decode_document,
    format_of,
    read_document,
)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.html", "html"),
        ("dir.srt/A.HTM", "html"),
        ("a.srt.gz", "srt"),
        ("a.b.vtt", "vtt"),
        ("a.txt", "text"),
        ("a.fr", None),
        ("-", None),
        ("html", None),
    ],
)
def test_formats_are_known_by_file_names(name, kind):
    assert format_of(name) == kind


def test_text_keeps_its_mark():
    assert decode_document("\ufeffé\r\n".encode(), "a") == "\ufeffé\r\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"caf\xe9", r"a\.srt: not UTF-8: byte 4 of the file is 0xe9; convert it, from Latin-1"),
        ("né".encode("utf-16"), r"a\.srt: not UTF-8 but apparently UTF-16"),
        (b"\x7fELF\0\0", r"a\.srt: has a null character, the 5th: is it a text\?"),
    ],
)
def test_documents_that_are_no_text_are_errors(data, message):
    with pytest.raises(CorpusError, match=message):
        decode_document(data, "a.srt")


def test_every_ending_is_of_a_kind_that_can_be_read():
    assert set(FORMAT_OF_SUFFIX.values()) == set(DOCUMENT_FORMATS)
    cue = "00:00:01,000 --> 00:00:02,000\nUn mot.\n"
    for kind in DOCUMENT_FORMATS:
        assert read_document(cue, kind, "a")


@pytest.mark.parametrize(
    ("kind", "text"),
    [("srt", "Un mot.\n"), ("srt", "1\n00:00:01 -> 00:00:02\nmot"), ("vtt", "Un mot.")],
)
def test_subtitles_without_any_are_an_error(kind, text):
    message = rf"^a\.b: has no subtitles, .* --> .*: is it {kind}\?$"
    with pytest.raises(CorpusError, match=message):
        read_document(text, kind, "a.b")


@pytest.mark.parametrize(("kind", "text"), [("srt", "\ufeff\n"), ("vtt", "WEBVTT\n\nNOTE a\n")])
def test_subtitles_may_be_blank(kind, text):
    assert read_document(text, kind, "a").lines == []


def test_line_breaks_are_kept():
    document = read_document("Un.\r\n\r\n  - deux \n\t\n12\u2028trois", "text", "a.txt")
    assert document.lines == ["Un.", "  - deux ", "12", "trois"]
    shouted = document.join([line.upper() for line in document.lines])
    assert shouted == "UN.\r\n\r\n  - DEUX \n\t\n12\u2028TROIS"
