"""Run the command of a receipt again, and compare its output with the page."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from docs.receipts_tool.numbers import Number, parse_value
from docs.receipts_tool.records import Checkout, Receipt, Rerun, parse_numbers

PRINTED_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
PRINTED_NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?:[kMGTP]\b)?")


@dataclass(frozen=True)
class NamedReceipt:
    """A receipt and the section that it belongs to."""

    page: str
    anchor: str
    receipt: Receipt

    @property
    def name(self) -> str:
        return f"{Path(self.page.removeprefix('docs/')).with_suffix('')}#{self.anchor}"


def all_receipts(checkout: Checkout) -> Iterator[NamedReceipt]:
    """All receipts, page by page."""
    for page in checkout.pages():
        for anchor, record in checkout.read_record(page).items():
            for receipt in record.receipts:
                yield NamedReceipt(page, anchor, receipt)


@dataclass(frozen=True)
class Outcome:
    """The result of running a command again."""

    seconds: float
    missing: list[Number]
    """The numbers that it should have printed but did not."""
    failed: str = ""
    """Its last line, if it failed."""

    @property
    def same(self) -> bool:
        return not self.missing and not self.failed


def full_form(receipt: Receipt) -> Rerun | None:
    """A receipt's whole command; None if it prints no numbers to compare."""
    if not receipt.prints:
        return None
    return Rerun(command=receipt.command, prints=receipt.prints, tolerance=receipt.tolerance)


def rerun(root: Path, form: Rerun, data: str = "") -> Outcome:
    """Run a command in a new folder, `$OUT`, with the checkout's `bench` and this Python.

    Digests that it prints must be among those of the receipt's `data`, if that has any.
    """
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        own = {"PATH": programs, "PYTHONPATH": str(root), "OUT": folder}
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", form.command],
            cwd=folder,
            env={"OMP_NUM_THREADS": "1"} | os.environ | own,
            capture_output=True,
            text=True,
            check=False,
        )
    seconds = time.perf_counter() - begin
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        return Outcome(seconds, [], lines[-1] if lines else f"exit code {done.returncode}")
    printed = done.stdout + done.stderr
    others = [one for one in PRINTED_DIGEST.findall(printed) if data and one not in data]
    failed = f"the digest of its data is {others[0]}" if others else ""
    return Outcome(seconds, missing_numbers(form, printed), failed)


def missing_numbers(form: Rerun, output: str) -> list[Number]:
    """The numbers of the page that are not in the output within the tolerance."""
    printed = [parse_value(text) for text in PRINTED_NUMBER.findall(output)]
    return [
        number
        for number in parse_numbers(form.prints)
        if not any(_near(number, value, form.tolerance) for value in printed)
    ]


def _near(number: Number, printed: Decimal, tolerance: float) -> bool:
    rounding = Decimal(1).scaleb(number.last_place) / 2
    return abs(printed - number.value) <= rounding + abs(number.value) * Decimal(str(tolerance))
