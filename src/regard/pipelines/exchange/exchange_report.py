"""The report of a conversion, and its output folder: written whole, or not at all."""

import shutil
from pathlib import Path
from typing import NamedTuple

from regard import __version__
from regard.atomic_io import storage_error, write_atomic
from regard.errors import RunError
from regard.manifest import read_manifest, rebuild_manifest
from regard.pipelines.exchange.gate import GateReport
from regard.recipes.paths import EXCHANGE_REPORT
from regard.settings import Settings

REPORT = EXCHANGE_REPORT


class ExchangeReport(Settings):
    """What was imported or exported, and what the gate found: `exchange.json`."""

    direction: str
    """import or export."""
    format: str
    """The toolkit, and the family of its model."""
    source: str
    """The imported folder, or the exported run."""
    files: dict[str, str]
    """The SHA-256 of the files of weights that were read."""
    licence: str | None = None
    """The licence that the source states."""
    regard: str = __version__
    """The version of regard that converted it."""
    notes: tuple[str, ...] = ()
    """Facts that the source does not state, and the values used instead."""
    usage: tuple[str, ...] = ()
    """How an imported translator is used: what it does to texts, and what is faster."""
    gate: GateReport


class ExportedFolder(NamedTuple):
    """A folder that was exported."""

    folder: Path
    report: ExchangeReport
    remark: str | None = None  # for the user


def require_free(out: Path) -> None:
    """Raise an error unless a folder is new, empty, or holds only the report of a refusal."""
    if out.is_symlink():  # it could not be replaced by a folder
        raise RunError(f"{out}: a link; name a folder that is new or empty with --out")
    if out.exists() and not out.is_dir():
        raise RunError(f"{out}: a file; name a folder that is new or empty with --out")
    names = [path.name for path in out.iterdir()] if out.exists() else []
    if [one for one in names if one != REPORT]:
        raise RunError(f"{out}: not empty; name a folder that is new or empty with --out")


def publish(place: Path, out: Path, report: ExchangeReport, other: str) -> None:
    """Move a finished conversion, with its report and a manifest, to `out`.

    If the gate refused it, as `other` would give other outputs, `out` has only the report, and a
    `RunError` is raised.
    """
    refused = report.gate.refused
    if refused is not None:
        shutil.rmtree(place)
        place.mkdir()
    write_atomic(place / REPORT, f"{report.model_dump_json(indent=1)}\n".encode())
    if refused is None and read_manifest(place) is None:  # a run has one already
        rebuild_manifest(place, {}, lock=False)
    move_into_place(place, out)
    if refused is not None:
        raise RunError(
            f"{report.source}: not {report.direction}ed, as {other} would give other outputs: "
            f"{refused}; {out / REPORT} has the report"
        )


def move_into_place(place: Path, out: Path) -> None:
    """Rename a finished folder to `out`; an error if that is not free (any more)."""
    require_free(out)
    try:
        (out / REPORT).unlink(missing_ok=True)
        place.rename(out)
    except OSError as error:
        require_free(out)  # another process may have been faster
        raise storage_error(out, error) from None
