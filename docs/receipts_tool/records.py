"""The record of a page: its numbers, and the sources of those that are measured.

`docs/receipts/` has a file for each page; `docs/citations.yaml` has the numbers that others
published.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from docs.receipts_tool.numbers import Number, find_numbers
from regard.atomic_io import write_atomic
from regard.errors import SettingsError
from regard.manifest import sha256_of_file
from regard.settings import Settings, expectation
from regard.yaml_files import read_yaml

RECORDS = Path("docs/receipts")
CITATIONS = Path("docs/citations.yaml")
COMPUTED = ("docs/settings.md",)
"""Pages that the package generates; a test compares them with its output."""
SHELF = "src/regard/recipes/shelf"
Date = Annotated[str, Field(pattern=r"^(\d{4}-\d\d-\d\d( to \d\d)?)?$")]


class Rerun(Settings):
    """A command that prints some numbers of a section again in seconds; `$OUT` is a new folder."""

    command: str
    prints: str
    """Numbers of the section that it must print."""
    tolerance: float = 0.0
    """The relative deviation that is allowed beyond the rounding on the page."""
    data: bool = False
    """Whether it needs the corpora of $REGARD_DATA."""


class Receipt(Settings):
    """How numbers of a section were measured. Details that were not written down are left empty."""

    command: str = ""
    machine: str = ""
    date: Date = ""
    commit: str = ""
    """The commit of the repository that brought most of the numbers to the page."""
    seed: int | None = None
    data: str = ""
    """The SHA-256 of the cleaned corpus, or several."""
    gpu: bool = False
    minutes: float | None = None
    """The duration of the command, if it is known."""
    prints: str = ""
    """Numbers of the section, such as scores, that the command prints on any machine."""
    tolerance: float = 0.0
    """The relative deviation that is allowed for them, as in `Rerun`."""
    short: Rerun | None = None
    """A command that checks some of the numbers in seconds; None: there is only the whole one."""
    sources: Mapping[str, str] = {}
    """Files that decide the numbers -> their digests when the numbers were measured."""

    @property
    def unknown(self) -> list[str]:
        """The details that were not written down."""
        return [name for name in ("command", "machine", "date") if not getattr(self, name)]

    def stale_sources(self, root: Path) -> list[str]:
        """The files that have changed since the measurement."""
        return [name for name, digest in self.sources.items() if digest_of(root / name) != digest]


class SectionRecord(Settings):
    """The numbers of a section, a line for each of its blocks, and the sources of measured ones."""

    numbers: tuple[str, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    copied: tuple[str, ...] = ()
    """Pages or sections whose numbers are repeated here, perhaps rounded."""
    cited: Mapping[str, str] = {}
    """Names in `docs/citations.yaml` -> their numbers in this section."""
    defined: Mapping[str, str] = {}
    """Source files -> the numbers here that they define: limits, settings, tolerances."""


class Citation(Settings):
    """Numbers that others published."""

    source: str
    compared: str = ""
    """Where the numbers were checked again; empty: they are as our pages first had them."""
    values: Mapping[str, str]
    """The measured quantity -> the numbers."""


@dataclass(frozen=True)
class Checkout:
    """A copy of the repository."""

    root: Path

    def pages(self) -> list[str]:
        """All pages, relative to the root."""
        root, docs = self.root, self.root / "docs"
        found = [*root.glob("*.md"), *docs.rglob("*.md"), *(docs / "tour").glob("*.py")]
        names = sorted(path.relative_to(root).as_posix() for path in found)
        return [name for name in names if name not in COMPUTED]

    def record_file(self, page: str) -> Path:
        name = page.removeprefix("docs/")
        return self.root / RECORDS / Path(name).with_suffix(".yaml")

    def read_record(self, page: str) -> dict[str, SectionRecord]:
        """The record of a page, by the anchors of its sections."""
        file = self.record_file(page)
        return _read(file, dict[str, SectionRecord]) if file.is_file() else {}

    def write_record(self, page: str, record: Mapping[str, SectionRecord]) -> None:
        raw = {
            anchor: one.model_dump(mode="json", exclude_defaults=True)
            for anchor, one in record.items()
        }
        text = yaml.safe_dump(raw, sort_keys=False, width=110, allow_unicode=True)
        file = self.record_file(page)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, text.encode())

    def citations(self) -> dict[str, Citation]:
        found: dict[str, Citation] = _read(self.root / CITATIONS, dict[str, Citation])
        return found


def _read(file: Path, kind: type[Any]) -> Any:
    try:
        return TypeAdapter(kind).validate_python(read_yaml(file) or {})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{file}: {place} {expectation(first)}") from None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file} cannot be read: {error}") from None


def parse_numbers(text: str) -> list[Number]:
    """The numbers of a recorded line."""
    return list(find_numbers(text))


def digest_of(file: Path) -> str:
    """The beginning of a file's SHA-256; empty if the file is gone."""
    return sha256_of_file(file)[:12] if file.is_file() else ""


def sources_of(root: Path, command: str) -> dict[str, str]:
    """The files that a command names, with their digests: recipes, and programs of `bench/`."""
    return {name: digest_of(root / name) for name in _named_files(root, command)}


def _named_files(root: Path, command: str) -> Iterator[str]:
    try:
        words = shlex.split(command, comments=True)
    except ValueError:
        words = command.split()
    for before, word in zip(["", *words], words, strict=False):
        name = re.sub(r"^bench\.", "", word)
        program = before in ("bench", "-m") and name != "bench"
        for file in (f"bench/{name}.py" if program else "", f"{SHELF}/{word}.yaml"):
            if file and re.fullmatch(r"[\w.-]+", name) and (root / file).is_file():
                yield file
