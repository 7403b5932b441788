import os

import pytest
from pydantic import TypeAdapter, ValidationError

from regard.json_files import describe_error, dump_json, parse_json, read_json

NUMBERS = TypeAdapter(dict[str, int])


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b'{"a":' * 50_000, b"9" * 6000, b"NaN", b"Infinity", b"\xff"],
)
def test_what_is_no_json_that_we_read(content):
    with pytest.raises(ValueError, match=r"line 1 column") as caught:
        parse_json(content)
    assert "\n" not in describe_error(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[]", "must be a group of named values"),
        (b'{"a": "b"}', "a: must be a whole number"),
        (b"[" * 9999, "is not JSON"),
    ],
)
def test_what_is_of_another_shape(tmp_path, content, said):
    file = tmp_path / "a.json"
    file.write_bytes(content)
    with pytest.raises(ValidationError) as caught:
        read_json(file, NUMBERS)
    assert describe_error(caught.value) == said


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(OSError, match="not a plain file") as caught:
        read_json(tmp_path / "a.json", NUMBERS)
    assert describe_error(caught.value) == "not a plain file"


def test_infinity_is_not_written():
    assert dump_json({"é": 1.5}) == '{"é": 1.5}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        dump_json({"a": float("inf")})
