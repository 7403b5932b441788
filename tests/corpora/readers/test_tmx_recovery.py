import io

import pytest

from regard.corpora.readers import tmx_recovery
from regard.corpora.readers.tmx_recovery import split_units_xml


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_units_are_found_wherever_reading_stops(monkeypatch, block):
    monkeypatch.setattr(tmx_recovery, "BLOCK", block)
    text = b'<?xml version="1.0"?>\n<tmx v="1">\n<tu>a\n</tu>\n'
    text += b'<!-- <tu>x</tu> --><tu n="2"><tuv/></tu>'
    found = [(one.stream.read(), one.line) for one in split_units_xml(io.BytesIO(text))]
    head = b'<?xml version="1.0"?><tmx v="1">'
    assert found == [
        (head + b"<tu>a\n</tu></tmx>", 3),
        (head + b'<tu n="2"><tuv/></tu></tmx>', 5),
    ]


def test_what_never_ends_is_not_kept(monkeypatch):
    monkeypatch.setattr(tmx_recovery, "BLOCK", 16)
    monkeypatch.setattr(tmx_recovery, "LARGEST", 100)
    text = b"<tmx><tu>" + b"x" * 1000 + b"<tu>a</tu>"
    assert len(list(split_units_xml(io.BytesIO(text)))) == 1
    assert not list(split_units_xml(io.BytesIO(b"x" * 1000)))
