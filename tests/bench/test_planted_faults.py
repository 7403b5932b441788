"""A planted fault is there while its tests run, and gone afterwards."""

from pathlib import Path

import pytest

from bench import planted_faults
from bench.contenders import ROOT
from bench.fault_table import FAULTS, Fault

FAULT = Fault("edge", "one is one", "sums.py", "1 + 0", "1 + 1", "tests/test_sums.py")


@pytest.fixture
def tree(tmp_path):
    file = tmp_path / "src" / "regard" / "sums.py"
    file.parent.mkdir(parents=True)
    file.write_text("ONE = 1 + 0\n")
    return tmp_path


@pytest.mark.parametrize(("status", "verdict"), [(0, "NOT CAUGHT"), (1, "caught"), (2, "broken")])
def test_what_the_tests_say_is_the_verdict(status, verdict, tree, monkeypatch):
    file, seen = tree / "src" / "regard" / "sums.py", []

    def run_tests(tree, tests):
        seen.append((file.read_text(), tests))
        return status, "the last line"

    monkeypatch.setattr(planted_faults, "run_tests", run_tests)
    before = file.stat().st_mtime
    found = planted_faults.examine(FAULT, tree)
    assert (found.verdict, found.detail) == (verdict, "the last line")
    assert seen == [("ONE = 1 + 1\n", ["tests/test_sums.py"])]
    assert file.read_text() == "ONE = 1 + 0\n"
    assert int(file.stat().st_mtime) == int(before) + 2  # so that no bytecode looks as new


@pytest.mark.parametrize("old", ["2 + 0", " "])
def test_a_text_that_is_not_there_once_is_stale(old, tree):
    assert planted_faults.examine(FAULT._replace(old=old), tree).verdict == "stale"


def test_every_row_fits_the_code_and_names_its_tests_and_another_behaviour():
    assert len({fault.behaviour for fault in FAULTS}) == len(FAULTS) > 50
    named = {name for fault in FAULTS for name in fault.tests.split()}
    assert not [name for name in named if not (ROOT / name).exists()]
    assert all(fault.old != fault.new and Path(fault.file).suffix == ".py" for fault in FAULTS)
    assert [fault.behaviour for fault in FAULTS if not planted_faults.is_there(fault, ROOT)] == []
