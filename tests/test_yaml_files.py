import time

import pytest

from regard.size_limits import max_bytes
from regard.yaml_files import YamlError, parse_yaml, read_yaml

LEVELS = "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9))
MERGED = "\n".join(
    f"a{n}: &a{n} {{x{n}: 1, <<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 9)
)
HOSTILE = {
    "aliases of aliases": f"a0: &a0 [1, 2, 3]\n{LEVELS}",
    "merged aliases": f"a0: &a0 {{x: 1}}\n{MERGED}",
    "an alias in itself": "a: &a [*a]",
    "deep lists": "[" * 100_000,
    "deep groups": "{a: " * 50_000,
    "deep keys": "? " * 50_000,
    "deep blocks": "\n".join(" " * n + "a:" for n in range(300)),
    "many values": "[" + "1," * 100_000 + "]",
    "a number of 6,000 digits": "9" * 6000,
    "a hexadecimal one": "0x" + "f" * 200_000,
    "one to the base 60": "1" + ":59" * 80_000,
    "no number": '!!int ""',
    "no float": '!!float ""',
    "no date": "!!timestamp 2001-99-99",
    "no truth": "!!bool maybe",
    "no bytes": "!!binary é",
    "no pairs": "!!omap [1]",
    "an object": "!!python/object/apply:os.getcwd []",
    "a list as a key": "? [1]\n: 2",
    "two documents": "a: 1\n---\nb: 2",
    "a control character": "a: \x00",
    "a list without an end": "[1",
    "more than is read": "#" * (max_bytes("yaml") + 1),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_what_would_hang_or_crash_is_refused_at_once_in_one_line(text):
    began = time.process_time()
    with pytest.raises(YamlError) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
    assert time.process_time() - began < 2


def test_plain_values():
    text = "a: &a {b: [1, -2.5, 1e-3, true, null]}\nc: *a\nd: {<<: *a, e: é}\nf: 2001-99-99"
    b = [1, -2.5, "1e-3", True, None]  # YAML 1.1 has no number without a stop there
    assert parse_yaml(text) == {
        "a": {"b": b},
        "c": {"b": b},
        "d": {"b": b, "e": "é"},
        "f": "2001-99-99",
    }


def test_a_key_that_is_there_twice_is_an_error():
    with pytest.raises(YamlError, match=r"^line 3: 'b' appears twice in its group$"):
        parse_yaml("a:\n  b: 1\n  b: 2")
    assert parse_yaml("a: {1: x, '1': y}\nb: {1: z}") == {"a": {1: "x", "1": "y"}, "b": {1: "z"}}


def test_a_file_too_large_is_not_read(tmp_path):
    file = tmp_path / "a.yaml"
    with file.open("wb") as large:
        large.truncate(1 << 40)
    with pytest.raises(OSError, match="larger than 256KiB, the limit of a file of YAML"):
        read_yaml(file)
