"""Checks all files of a folder against its manifest."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard import manifest
from regard.errors import DamagedError, RunError
from regard.manifest import MANIFEST, MARKER_FILES
from regard.recipes.paths import EXCHANGE_REPORT, EXPORT_INFO, RECIPE_FILE, require_folder
from regard.recipes.run_folder import RunFolder
from regard.settings import quoted
from regard.training.checkpoints import digest_matches, list_checkpoints

REMEDIES: tuple[tuple[str, str], ...] = (
    (r"(.*/)?onnx/[^/]+-\w+/.*", "the next regard translate --engine onnx makes it again"),
    (r"(.*/)?ctranslate2/.*", "the next regard translate makes it again, or: regard export {run}"),
    (
        r"data/\w+\.(arrow|mark|pairs)",
        "made again from the texts by: regard train --resume --out {run}",
    ),
    (r"weights/average\.safetensors", "made again by: regard average {run}"),
    (r"(refined/)?weights/step-\d+\.safetensors", "training and averages work without it"),
    (
        r"(refined/)?checkpoints/.*",
        "training continues from the one before it; if none is complete, it starts over",
    ),
    (
        r"calibration\.json",
        "remove it if it exists; fitted again by: regard train --resume --out {run}",
    ),
    (r"card\.md|scores\.json", "written again by: regard train --resume --out {run}"),
    (r"alignment\.json", "measured again by: regard align {run} --choose"),
    (r"measured\.json", "measured again by: regard bench {run}"),
    (
        r"recipe\.yaml",
        "undo what was changed, or restore it from a copy; if you edited it on purpose: "
        "regard verify {run} --accept",
    ),
    (
        r"(rows|found|steps|ladder|by-length|quality-cost)\b.*|scores\.(png|svg)",
        "regard compare --out {run}",
    ),
    (r"manifest\.json", "restore it from a copy; or, if you trust all files: --accept"),
    (
        r"(refined/|corpus/\w+/)?(data|weights)/.*|(refined/)?model\.safetensors|plan\.json"
        r"|(tokenizer|source|target)\.(json|model)",
        "restore it from a copy",
    ),
)
"""How to repair a file, by its path in the folder {run}."""
EXPORT_MARKERS = (EXPORT_INFO, EXCHANGE_REPORT)
OTHER_REMEDY = "it was made by a command: run that again"
"""How to repair files that no run needs, such as images."""
EXPORT_REMEDY = "restore it from a copy, or make the export again: regard export RUN --to FORMAT"
"""How to repair a file of an export that is not inside its run; all of its files are needed."""


State = Literal["damaged", "missing", "unexpected"]


class FileFinding(NamedTuple):
    """A file that differs from what was written."""

    file: str  # its path in the folder
    state: State
    remedy: str


class Verification(NamedTuple):
    """The result of checking a folder."""

    folder: Path
    files: int  # number of files checked
    findings: tuple[FileFinding, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged or missing; unexpected files do no harm."""
        return all(finding.state == "unexpected" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "files": self.files,
            "whole": self.whole,
            "findings": [finding._asdict() for finding in self.findings],
        }


def verify(folder: Path) -> Verification:
    """Check all files of a run, an export or a comparison, and of those inside it."""
    _check_is_ours(folder, (*MARKER_FILES, MANIFEST))
    found: dict[str, State] = {}
    expected: dict[str, manifest.Digests] = {}
    digests: dict[str, str | None] = {}  # None: missing, or not in the manifest
    of_exports = set[str]()
    for root in _roots(folder):
        prefix = "" if root == folder else f"{root.relative_to(folder).as_posix()}/"
        try:
            listed = manifest.read_manifest(root)
        except DamagedError:
            found[f"{prefix}{MANIFEST}"] = "damaged"
            continue
        if listed is None:
            raise RunError(
                f"{root}: has no {MANIFEST}: it is from a version without manifests, so that its "
                f"files cannot be checked; if you trust them: regard verify {quoted(root)} --accept"
            )
        names = {name for name in listed if "#" not in name}.union(manifest.list_files(root))
        is_export = RECIPE_FILE not in listed and not listed.keys().isdisjoint(EXPORT_MARKERS)
        for name in sorted(names):
            file = prefix + name
            of_exports.update([file] if is_export else [])
            expected[file] = listed.get(name, ())
            digests[file] = manifest.digest_or_none(root / name)
            needed = is_export or _remedy_for(name) is not None
            if state := _state(digests[file], expected[file], needed=needed):
                found[file] = state
        for stage in (root, root / "refined"):
            for path in list_checkpoints(stage / "checkpoints"):
                file = f"{prefix}{path.relative_to(root).as_posix()}"
                digests[file] = None
                if not digest_matches(path):
                    found[file] = "damaged"
    copies = {digest: name for name, digest in digests.items() if digest and name not in found}
    findings = []
    for file, state in found.items():
        other = EXPORT_REMEDY if file in of_exports else OTHER_REMEDY
        remedy = _remedy(file, state, folder, copies, expected.get(file, ()), other)
        findings.append(FileFinding(file, state, remedy))
    return Verification(folder, len({*digests, *found}), tuple(findings))


def _check_is_ours(folder: Path, names: Iterable[str]) -> None:
    """An error unless a folder holds a file of one of these names."""
    require_folder(folder)
    if not any((folder / name).is_file() for name in names):
        raise RunError(f"{folder}: neither a run nor an export nor a comparison")


def accept(folder: Path) -> None:
    """Write a new manifest of the files as they are now."""
    run = RunFolder(folder)
    _check_is_ours(folder, MARKER_FILES)
    if run.in_use():
        raise RunError(f"{folder}: a process is writing there; wait for it, or stop it")
    run.rebuild_manifest()


def _roots(folder: Path) -> Iterator[Path]:
    """The folder, and those in it that have manifests: exports of a run, runs of a comparison."""
    yield folder
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if MANIFEST in files and Path(path) != folder:
            yield Path(path)


def _state(digest: str | None, expected: manifest.Digests, *, needed: bool) -> State | None:
    """What is wrong with a file; None if nothing is, or if it is missing and not `needed`."""
    if not expected:
        return "unexpected"
    if digest in expected or (digest is None and not needed):
        return None
    return "missing" if digest is None else "damaged"


def _remedy_for(name: str) -> str | None:
    """How to repair a file of that name; None if no run needs it."""
    return next((remedy for pattern, remedy in REMEDIES if re.fullmatch(pattern, name)), None)


def _remedy(
    file: str,
    state: State,
    folder: Path,
    copies: Mapping[str, str],
    expected: manifest.Digests,
    other: str,
) -> str:
    """How to repair a file: by a copy of a file with the expected content, if there is one;
    `other`, if nothing is known of a file of that name.
    """
    if state == "unexpected":
        return "regard does not read it"
    for digest in expected:
        if digest is not None and digest in copies:
            return f"copy {folder / copies[digest]}, which is the same"
    return (_remedy_for(file) or other).format(run=quoted(folder))
