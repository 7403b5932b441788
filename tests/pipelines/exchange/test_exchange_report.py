import pytest

from regard.errors import RunError
from regard.pipelines.exchange.exchange_report import REPORT, move_into_place


@pytest.fixture
def place(tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "new").touch()
    return tmp_path / "place"


def test_what_another_process_has_written_meanwhile_is_left_whole(place, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("model", REPORT):
        (out / name).write_text("theirs")
    with pytest.raises(RunError, match="not empty; name a folder that is new or empty with --out"):
        move_into_place(place, out)
    assert {file.name: file.read_text() for file in out.iterdir()} == dict.fromkeys(
        ("model", REPORT), "theirs"
    )


def test_the_report_of_a_refusal_is_replaced(place, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / REPORT).touch()
    move_into_place(place, tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["new"]
