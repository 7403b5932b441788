"""Every number of the documentation is recorded and has a source; changes by hand are found."""

import re
import shutil
from pathlib import Path

import pytest

from docs.receipts_tool.records import Checkout, SectionRecord
from docs.receipts_tool.scan import Scan

ROOT = Path(__file__).parents[2]
FIGURES = re.compile(r"\d[\d.,]*(?:e[-+]?\d+)?")


def test_every_number_of_the_documentation_is_recorded_and_has_a_source():
    scan = Scan(Checkout(ROOT))
    findings = "\n".join(map(str, scan.findings()))
    remedy = "after an intended change: python -m docs.receipts_tool record PAGE"
    assert not findings, f"{findings}\n{remedy}"
    assert sum(len(scan.sections(page)) for page in scan.checkout.pages()) > 150


def test_a_number_that_is_changed_by_hand_is_found_on_every_page(tmp_path):
    """The last number of each page that has any."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("images"))
    for page in ROOT.glob("*.md"):
        shutil.copy(page, tmp_path)
    checkout, tried = Checkout(tmp_path), 0
    for page in checkout.pages():
        for anchor, known in list(checkout.read_record(page).items())[-1:]:
            figures = FIGURES.search(known.numbers[-1].split()[-1])[0]
            changed = figures[:-1] + str((int(figures[-1]) + 1) % 10)
            path = tmp_path / page
            spot = rf"(?<![\w.,]){re.escape(figures)}(?![\d_]|[.,]\d)"
            path.write_text(re.sub(spot, changed, path.read_text("utf-8")), "utf-8")
            found = [one.anchor for one in Scan(checkout).page_findings(page)]
            assert anchor in found, f"{page}#{anchor}: {figures} became {changed}"
            tried += 1
    assert tried > 25


@pytest.fixture
def checkout(tmp_path):
    """A page with a measured number, and one beside it that has the number again."""
    (tmp_path / "docs" / "receipts").mkdir(parents=True)
    (tmp_path / "src" / "regard").mkdir(parents=True)
    (tmp_path / "docs" / "a.md").write_text("# A\n\nBLEU 41.96, beam 5\n")
    (tmp_path / "docs" / "b.md").write_text("# B\n\nagain: 42.0\n")
    cited = "wu: {source: Wu et al. 2021, values: {with images: '41.96'}}\n"
    (tmp_path / "docs" / "citations.yaml").write_text(cited)
    (tmp_path / "limits.py").write_text("LIMIT = 41.96\n")
    return Checkout(tmp_path)


def findings(checkout, **held):
    checkout.write_record("docs/a.md", {"a": SectionRecord(numbers=("41.96 5",), **held)})
    return [one.what for one in Scan(checkout).page_findings("docs/a.md")]


@pytest.mark.parametrize(
    ("held", "found"),
    [
        ({"cited": {"wu": "41.96"}}, []),
        ({"defined": {"limits.py": "41.96"}}, []),
        ({"receipts": [{"command": "regard train multi30k"}]}, []),
        ({}, ["no receipt, citation or source for 41.96"]),
        ({"cited": {"xu": "41.96"}}, ["xu is not in docs/citations.yaml"]),
        ({"cited": {"wu": "41.96 41.02"}}, ["41.02 is said to be cited from wu, and is not"]),
        ({"defined": {"gone.py": "41.96"}}, ["41.96 is said to be defined in gone.py, and is not"]),
        (
            {"receipts": [{"short": {"command": "echo", "prints": "7"}}]},
            ["7 is said to be printed again, and is not"],
        ),
    ],
)
def test_a_measured_number_needs_a_receipt_a_citation_or_its_source(checkout, held, found):
    assert findings(checkout, **held) == found


def test_a_number_may_stand_on_another_page_with_fewer_figures(checkout):
    record = {"b": SectionRecord(numbers=("42.0",), copied=("docs/a.md#a",))}
    checkout.write_record("docs/b.md", record)
    assert not list(Scan(checkout).page_findings("docs/b.md"))
    (checkout.root / "docs" / "a.md").write_text("# A\n\nBLEU 43.96, beam 5\n")
    (finding,) = Scan(checkout).page_findings("docs/b.md")
    assert finding.what == "no receipt, citation or source for 42.0"


def test_what_became_of_recorded_numbers_is_told(checkout):
    findings(checkout)
    (checkout.root / "docs" / "a.md").write_text("# A\n\nBLEU 41.69, beam 5\n\n# C\n\n7\n")
    told = [str(one) for one in Scan(checkout).page_findings("docs/a.md")]
    assert told == ["docs/a.md#a: 41.96 is now 41.69", "docs/a.md#c: not recorded: 7"]


def test_a_digest_on_a_page_must_be_in_a_receipt(checkout):
    digest = "0f" * 32
    (checkout.root / "docs" / "a.md").write_text(f"# A\n\nBLEU 41.96, beam 5, data `{digest}`\n")
    assert findings(checkout, receipts=[{"data": digest}]) == []
    assert findings(checkout, receipts=[{}]) == [f"the digest {digest} is in no receipt"]
