import pytest

from regard.errors import CorpusError
from regard.serving.formats.kinds import READERS, decode, kind_of


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
def test_names_tell_what_a_file_is(name, kind):
    assert kind_of(name) == kind
    assert kind is None or kind in READERS


def test_text_keeps_its_mark():
    assert decode("\ufeffé\r\n".encode(), "a") == "\ufeffé\r\n"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"caf\xe9", r"a\.srt: not UTF-8: byte 4 of the file is 0xe9; convert it, from Latin-1"),
        ("né".encode("utf-16"), r"a\.srt: not UTF-8 but, it seems, UTF-16"),
        (b"\x7fELF\0\0", r"a\.srt: holds a null character, the 5th: is it a text\?"),
    ],
)
def test_what_is_no_text_is_an_error(data, message):
    with pytest.raises(CorpusError, match=message):
        decode(data, "a.srt")
