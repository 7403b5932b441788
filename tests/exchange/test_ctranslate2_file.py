"""A file of variables is read whole, or refused at once, whatever its bytes are."""

import struct

import pytest
import torch

from regard.errors import RunError
from regard.exchange.ctranslate2_file import read_variables


def string(text):
    return struct.pack("<H", len(text) + 1) + text.encode() + b"\0"


def variable(name, shape, kind, content, *, size=None):
    dims = b"".join(struct.pack("<I", dim) for dim in shape)
    size = len(content) if size is None else size
    return (
        string(name)
        + struct.pack("<B", len(shape))
        + dims
        + struct.pack("<BI", kind, size)
        + content
    )


def model_bin(*variables, version=6, name="TransformerSpec", aliases=()):
    head = struct.pack("<I", version) + string(name) + struct.pack("<I", 7)
    body = struct.pack("<I", len(variables)) + b"".join(variables)
    ends = struct.pack("<I", len(aliases)) + b"".join(string(one) for x in aliases for one in x)
    return head + body + (ends if version >= 3 else b"")


FLOATS = variable("a", [2, 1], 0, struct.pack("<2f", 1.5, -2.0))
BYTES = variable("m/weight", [2, 2], 1, bytes([127, 0, 256 - 127, 1]))
SCALES = variable("m/weight_scale", [2], 0, struct.pack("<2f", 127.0, 254.0))


def read(tmp_path, content):
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    return read_variables(path)


def test_types_scales_and_aliases_are_read(tmp_path):
    half = torch.tensor([0.5, 3.0])
    found = read(
        tmp_path,
        model_bin(
            FLOATS,
            BYTES,
            SCALES,
            variable("h", [2], 4, half.half().numpy().tobytes()),
            variable("b", [2], 5, half.bfloat16().view(torch.int16).numpy().tobytes()),
            variable("s", [2], 2, struct.pack("<2h", 512, -1024)),
            variable("s_scale", [], 0, struct.pack("<f", 1024)),
            aliases=[("copy/weight", "m/weight")],
        ),
    )
    assert (found.specification, found.revision) == ("TransformerSpec", 7)
    assert found.weight("a").tolist() == [[1.5], [-2.0]]
    rows = found.weight("copy/weight")
    torch.testing.assert_close(rows, torch.tensor([[1.0, 0.0], [-0.5, 1 / 254]]))
    assert found.weight("h").tolist() == found.weight("b").tolist() == [0.5, 3.0]
    assert found.weight("s").tolist() == [0.5, -1.0]


def test_old_versions_tell_types_by_their_size(tmp_path):
    content = struct.pack("<2f", 1.5, -2.0)
    floats = variable("a", [2], 4, content, size=2)  # so many items of four bytes
    assert read(tmp_path, model_bin(floats, version=2)).weight("a").tolist() == [1.5, -2.0]


def test_a_file_that_ends_anywhere_is_refused(tmp_path):
    content = model_bin(FLOATS, BYTES, SCALES, aliases=[("copy/weight", "m/weight")])
    for end in range(len(content)):
        with pytest.raises(RunError, match=r"model\.bin: (empty|not a CTranslate2 model)"):
            read(tmp_path, content[:end])
    read(tmp_path, content)


HUGE = 2**32 - 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (model_bin(FLOATS, version=7), "its version is 7; supported are 2 to 6"),
        (model_bin(FLOATS) + b"!", "1 bytes follow its end"),
        (model_bin(FLOATS, FLOATS), "holds 'a' twice"),
        (model_bin(FLOATS, aliases=[("b", "c")]), "'b' is an alias of 'c', which does not exist"),
        (model_bin(variable("a", [HUGE] * 4, 0, b"")), "has 0 bytes of torch.float32"),
        (model_bin(variable("a", [HUGE], 1, b"", size=HUGE)), r"and 4,294,967,295 should follow"),
        (model_bin(variable("a", [1] * 5, 1, b"x")), "has 5 axes"),
        (model_bin(variable("a", [1], 9, b"x")), "of an unknown type, 9"),
        (model_bin(variable("a" * 600, [1], 1, b"x")), "a name has 601 bytes"),
        (model_bin(variable("a\0b", [1], 1, b"x")), "is not a name"),
        (struct.pack("<I", 6) + string("TransformerSpec") + struct.pack("<2I", 7, HUGE), "it ends"),
    ],
)
def test_hostile_files_are_refused(tmp_path, content, reason):
    with pytest.raises(RunError, match=reason):
        read(tmp_path, content)


def test_int8_without_a_scale_is_refused(tmp_path):
    with pytest.raises(RunError, match="m/weight is of int8 but has no m/weight_scale"):
        read(tmp_path, model_bin(BYTES)).weight("m/weight")
    wrong = variable("m/weight_scale", [3], 0, struct.pack("<3f", 1, 1, 1))
    with pytest.raises(RunError, match=r"has 3 numbers of torch\.float32 for 2 rows"):
        read(tmp_path, model_bin(BYTES, wrong)).weight("m/weight")
