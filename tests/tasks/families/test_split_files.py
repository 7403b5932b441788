import pytest

from regard.errors import RunError
from regard.tasks.families.split_files import SplitFiles

ROWS = [{"text": "two\nlines", "label": 1}, {"text": "a\u2028b\x85c\u2029", "label": 0}]


def test_examples_come_back_whatever_line_ends_they_hold(tmp_path):
    files = SplitFiles(tmp_path)
    files.write("train", ROWS)
    assert files.read("train", "label", "text") == [(x["label"], x["text"]) for x in ROWS]


def test_a_file_that_is_gone_is_named(tmp_path):
    with pytest.raises(RunError, match=r"valid\.jsonl: gone, or no longer as it was written"):
        SplitFiles(tmp_path).read("valid", "text")
