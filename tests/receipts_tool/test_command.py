import pytest
from typer.testing import CliRunner

from docs.receipts_tool import __main__ as tool
from docs.receipts_tool.records import Checkout, Receipt, Rerun, SectionRecord
from regard.errors import SettingsError


def run(*args):
    return CliRunner().invoke(tool.app, args, catch_exceptions=False, env={"COLUMNS": "400"})


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for folder in ("docs/receipts", "bench"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "docs" / "citations.yaml").write_text("{}\n")
    (tmp_path / "bench" / "fast.py").write_text("1\n")
    (tmp_path / "docs" / "a.md").write_text("# A\n\n1.5 and 2.5\n\n# B\n\n9.5\n")
    short = Receipt(
        command="python -m bench fast",
        short=Rerun(command="echo 1.5", prints="1.5"),
        sources={"bench/fast.py": "other"},
    )
    record = {
        "a": SectionRecord(numbers=("1.5 2.5",), receipts=(short,)),
        "b": SectionRecord(numbers=("9.5",), receipts=(Receipt(command="c", gpu=True),)),
    }
    Checkout(tmp_path).write_record("docs/a.md", record)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    return tmp_path


def test_check_runs_short_forms_and_lists_what_is_stale_or_needs_a_gpu(checkout):
    told = run("check").stdout
    assert "as recorded 1.5  a#a" in told
    assert "stale a#a: bench/fast.py changed since" in told
    assert (
        "not checked here, needs a GPU: a#b\nwithout command, machine or date: 2 receipts" in told
    )
    assert told.endswith("all numbers are as recorded; 1 receipt stale\n")


def test_check_fails_if_a_page_or_a_short_form_differs(checkout):
    page = checkout / "docs" / "a.md"
    page.write_text(page.read_text().replace("1.5", "1.7"))
    with pytest.raises(SettingsError, match="1 section and 0 receipts differ"):
        run("check")
    told = run("record", "a", "--machine", "m", "--date", "2026-11-18").stdout
    assert told == "docs/a.md#a: 1.5 is now 1.7 (python -m bench fast; m; 2026-11-18)\n"
    with pytest.raises(SettingsError, match="1 section and 0 receipts differ"):
        run("check")  # the short form still has 1.5


def test_list_and_record_name_pages_and_sections(checkout):
    assert (
        "a#b: not checked here: needs a GPU\n  c\n  not known: machine, date\n"
        in run("list").stdout
    )
    assert "a#b" not in run("list", "a#a").stdout
    with pytest.raises(SettingsError, match="has no receipt #c; it has a, b"):
        run("list", "docs/a.md#c")
    with pytest.raises(SettingsError, match="nowhere: there is no such page"):
        run("record", "nowhere")
