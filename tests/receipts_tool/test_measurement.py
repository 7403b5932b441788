import pytest

from docs.receipts_tool.measurement import Measurement, record_page
from docs.receipts_tool.records import Checkout, Receipt, SectionRecord
from docs.receipts_tool.scan import Scan
from regard.errors import SettingsError

PAGE = "docs/a.md"
RUN = "`python -m bench speed`, 2026-11-18: **{}** tokens/s with a beam of 5\n"


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "docs" / "receipts").mkdir(parents=True)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "speed.py").write_text("1\n")
    (tmp_path / "docs" / "citations.yaml").write_text("{}\n")
    (tmp_path / PAGE).write_text("# A\n\n" + RUN.format("3,926"))
    return Checkout(tmp_path)


def record(checkout, **said):
    return record_page(Scan(checkout), PAGE, Measurement(**said))


def test_a_new_number_takes_what_the_page_says_and_asks_for_the_rest(checkout):
    with pytest.raises(SettingsError, match=r"^docs/a.md#a: 3,926: say --machine$"):
        record(checkout)
    asked = []
    record(checkout, ask=lambda question: asked.append(question) or "one NVIDIA H200")
    assert asked == ["docs/a.md#a: 3,926: machine"]
    (receipt,) = checkout.read_record(PAGE)["a"].receipts
    assert (receipt.command, receipt.date) == ("python -m bench speed", "2026-11-18")
    assert receipt.gpu
    assert not list(Scan(checkout).page_findings(PAGE))


def test_a_changed_number_renews_the_receipt_and_other_changes_do_not(checkout):
    record(checkout, machine="two cores")
    known = checkout.read_record(PAGE)["a"].receipts
    (checkout.root / PAGE).write_text("# A\n\n" + RUN.format("3,926").replace("5", "4"))
    assert record(checkout) == ["docs/a.md#a: 5 is now 4"]
    assert checkout.read_record(PAGE)["a"].receipts == known
    (checkout.root / "bench" / "speed.py").write_text("2\n")
    assert known[0].stale_sources(checkout.root) == ["bench/speed.py"]
    (checkout.root / PAGE).write_text("# A\n\n" + RUN.format("4,100").replace("-18", "-19"))
    with pytest.raises(SettingsError, match=r"^docs/a.md#a: --date today: give a day, such as"):
        record(checkout, date="today")
    (line,) = record(checkout, gpu=True)
    assert line.endswith("(python -m bench speed; two cores; 2026-11-19)")
    (receipt,) = checkout.read_record(PAGE)["a"].receipts
    assert (known[0].gpu, receipt.gpu) == (False, True)
    assert receipt.stale_sources(checkout.root) == []
    assert record(checkout) == []


def test_of_several_receipts_the_one_that_is_new_has_to_be_named(checkout):
    both = [Receipt(command=name, machine="m", date="2026-11-15") for name in ("one", "two")]
    checkout.write_record(PAGE, {"a": SectionRecord(numbers=("3,900 5",), receipts=tuple(both))})
    with pytest.raises(
        SettingsError, match="say by --command which of these gave it:\n  one\n  two"
    ):
        record(checkout)
    record(checkout, command="two")
    found = checkout.read_record(PAGE)["a"].receipts
    assert [one.date for one in found] == ["2026-11-15", "2026-11-18"]


def test_a_section_keeps_its_receipt_under_another_heading(checkout):
    record(checkout, machine="two cores")
    (checkout.root / PAGE).write_text("# B\n\n" + RUN.format("3,926"))
    record(checkout)
    assert list(checkout.read_record(PAGE)) == ["b"]
    assert checkout.read_record(PAGE)["b"].receipts[0].machine == "two cores"
