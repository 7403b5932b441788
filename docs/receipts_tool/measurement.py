"""Record the numbers of a changed page, with a receipt for new ones."""

import re
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from docs.receipts_tool.numbers import Number, Section
from docs.receipts_tool.records import Receipt, SectionRecord, sources_of
from docs.receipts_tool.scan import DIGEST, Scan, compare, lines_of
from regard.errors import SettingsError

COMMAND = re.compile(
    r"(?:^|`)((?:OMP_\w+=\d+ )?(?:regard|python -m bench|make) [^`\n]+)", re.MULTILINE
)
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")


@dataclass(frozen=True)
class Measurement:
    """How new numbers were measured; empty fields are read from the page, or asked for."""

    command: str = ""
    machine: str = ""
    date: str = ""
    gpu: bool = False
    ask: Callable[[str], str] | None = None
    """Asks a question at the terminal and returns the answer."""


def record_page(scan: Scan, page: str, given: Measurement, only: str = "") -> list[str]:
    """Record the current numbers of a page, or of one section; returns a line for each change."""
    before = scan.checkout.read_record(page)
    sections = {section.anchor: section for section in scan.sections(page)}
    wanted = {only: sections[only]} if only else sections
    after = {anchor: before[anchor] for anchor in sections if anchor in before}
    changes = []
    for anchor, section in wanted.items():
        known = before.get(anchor) or _moved(section, before) or SectionRecord()
        updated, by = _updated_record(scan, f"{page}#{anchor}", section, known, given)
        if before.get(anchor) != updated:
            changes.append(f"{page}#{anchor}: {compare(known.numbers, updated.numbers)}{by}")
        after[anchor] = updated
    changes += [f"{page}#{anchor}: gone" for anchor in before if anchor not in sections]
    if changes:
        ordered = {anchor: after[anchor] for anchor in sections if anchor in after}
        scan.checkout.write_record(page, ordered)
    return changes


def _updated_record(
    scan: Scan, place: str, section: Section, known: SectionRecord, given: Measurement
) -> tuple[SectionRecord, str]:
    """The updated record of a section, and the receipt of new numbers in words."""
    fresh = fresh_numbers(scan, section, known)
    updated = known.model_copy(update={"numbers": lines_of(section)})
    if not fresh:
        return updated, ""
    receipt = _receipt(scan.checkout.root, place, section, known, given, fresh)
    commands = [one.command for one in known.receipts]
    receipts = [receipt if one.command == receipt.command else one for one in known.receipts]
    if receipt.command not in commands:
        receipts.append(receipt)
    by = f" ({receipt.command}; {receipt.machine}; {receipt.date})"
    return updated.model_copy(update={"receipts": tuple(receipts)}), by


def _moved(section: Section, before: Mapping[str, SectionRecord]) -> SectionRecord | None:
    """The record of a section under its former heading."""
    same = (one for one in before.values() if one.numbers == lines_of(section))
    return next(same, None)


def fresh_numbers(scan: Scan, section: Section, known: SectionRecord) -> list[Number]:
    """The measured numbers of a section that have no receipt yet."""
    held = Counter(" ".join(known.numbers).split()) if known.receipts else Counter[str]()
    fresh = []
    for number in scan.without_source(section, known):
        if not held[str(number)]:
            fresh.append(number)
        held[str(number)] -= 1
    return fresh


def _receipt(
    root: Path,
    place: str,
    section: Section,
    known: SectionRecord,
    given: Measurement,
    fresh: list[Number],
) -> Receipt:
    """The receipt of new numbers: an updated one of the section, or a new one."""
    shown = " ".join(map(str, fresh[:8])) + (" …" if len(fresh) > 8 else "")
    if len(known.receipts) > 1 and not given.command:
        commands = "\n  ".join(one.command for one in known.receipts)
        raise SettingsError(
            f"{place}: {shown}: say by --command which of these gave it:\n  {commands}"
        )
    old = next((one for one in known.receipts if given.command in ("", one.command)), None)
    on_page = COMMAND.search(section.text)
    details = {
        "command": given.command or (old.command if old else on_page[1] if on_page else ""),
        "machine": given.machine or (old.machine if old else ""),
        "date": given.date or max(DATE.findall(section.text), default=""),
    }
    missing = [name for name, value in details.items() if not value]
    if missing and given.ask is None:
        raise SettingsError(f"{place}: {shown}: say {', '.join(f'--{name}' for name in missing)}")
    for name in missing:
        assert given.ask is not None
        details[name] = given.ask(f"{place}: {shown}: {name}")
    kept = old.model_dump() if old else {}
    found = {
        "gpu": given.gpu or (old.gpu if old else "NVIDIA" in details["machine"]),
        "commit": _head(root),
        "data": " ".join(dict.fromkeys(DIGEST.findall(section.text))),
        "sources": sources_of(root, details["command"]),
        "minutes": None,  # known only for the former run
    }
    try:
        return Receipt.model_validate({**kept, **details, **found})
    except ValidationError:
        raise SettingsError(
            f"{place}: --date {details['date']}: give a day, such as 2026-11-18"
        ) from None


def _head(root: Path) -> str:
    """The commit that is checked out; empty if git cannot tell."""
    command = ["git", "-C", str(root), "rev-parse", "--short=8", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
