"""Whether a folder is still what was written into it: all files against the manifest."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

from regard import manifest
from regard.errors import DamagedError, RunError
from regard.manifest import MANIFEST, MARKER_FILES
from regard.recipes.run_folder import RunFolder
from regard.training.checkpoints import digest_matches, list_checkpoints

REMEDIES: tuple[tuple[str, str], ...] = (
    (r"(.*/)?ctranslate2/.*", "the next regard translate makes it again, or: regard export {run}"),
    (r"data/\w+\.(arrow|mark)", "made again from the texts by: regard train --resume --out {run}"),
    (r"weights/average\.safetensors", "made again by: regard average {run}"),
    (r"(refined/)?weights/step-\d+\.safetensors", "training and averages do without it"),
    (
        r"(refined/)?checkpoints/.*",
        "training goes on from the one before it; where none is whole, it starts over",
    ),
    (r"card\.md|scores\.json", "written again by: regard train --resume --out {run}"),
    (r"alignment\.json", "measured again by: regard align {run} --choose"),
    (r"measured\.json", "measured again by: regard bench {run}"),
    (
        r"recipe\.yaml",
        "undo what was changed, or restore it from a copy; if you have edited it and it is right: "
        "regard verify {run} --accept",
    ),
    (r"(rows|found|steps|ladder|by-length|quality-cost)\b.*", "regard compare --out {run}"),
    (r"manifest\.json", "restore it from a copy; or, if you trust all files: --accept"),
    (
        r"(refined/|corpus/\w+/)?(data|weights)/.*|(refined/)?model\.safetensors|plan\.json"
        r"|(tokenizer|source|target)\.(json|model)|export\.json|config\.json|model\.bin"
        r"|\w+_vocabulary\.json",
        "restore it from a copy",
    ),
)
"""What to do for a file, by its path in the folder {run}."""
OTHER_REMEDY = "it was made by a command: give that again"
"""What to do for files that no run needs, such as pictures; they may be deleted, too."""


class FileFinding(NamedTuple):
    """A file that is not as it was written."""

    file: str
    """Its path below the folder."""
    state: Literal["damaged", "missing", "unexpected"]
    remedy: str


class Verification(NamedTuple):
    """What was found when a folder was checked."""

    folder: Path
    files: int
    """That were checked."""
    findings: tuple[FileFinding, ...]

    @property
    def whole(self) -> bool:
        """Whether nothing is damaged or missing; what is there beside it does no harm."""
        return all(one.state == "unexpected" for one in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "files": self.files,
            "whole": self.whole,
            "findings": [one._asdict() for one in self.findings],
        }


def verify(folder: Path) -> Verification:
    """All files of a run, an export or a comparison, and of those that lie in it."""
    _check_is_ours(folder, (*MARKER_FILES, MANIFEST))
    found: list[FileFinding] = []
    states: dict[str, str | None] = {}
    for root in _roots(folder):
        below = "" if root == folder else f"{root.relative_to(folder).as_posix()}/"
        try:
            listed = manifest.read_manifest(root)
        except DamagedError:
            found.append(FileFinding(f"{below}{MANIFEST}", "damaged", ""))
            continue
        if listed is None:
            raise RunError(
                f"{root}: has no {MANIFEST}: it is from before there were any, so that nothing is "
                f"known of its files; if you trust them: regard verify {root} --accept"
            )
        names = {name for name in listed if "#" not in name}.union(manifest.list_files(root))
        here = {name: manifest.digest_or_none(root / name) for name in sorted(names)}
        whole = _checkpoints(root)
        found += [one._replace(file=below + one.file) for one in _compare(listed, here, whole)]
        states |= {below + name: state for name, state in here.items()}
        states |= {below + name: None for name in whole}
    wrong = {one.file for one in found}
    copies = {state: name for name, state in states.items() if state and name not in wrong}
    wanted = {one.file: _listed_states(folder, one.file) for one in found}
    with_remedies = (
        one._replace(remedy=_remedy(one, folder, copies, wanted[one.file])) for one in found
    )
    return Verification(folder, len(states), tuple(with_remedies))


def _check_is_ours(folder: Path, names: Iterable[str]) -> None:
    """An error unless a folder holds a file of one of these names."""
    if not folder.is_dir():
        raise RunError(f"{folder}: no such folder")
    if not any((folder / name).is_file() for name in names):
        raise RunError(f"{folder}: neither a run nor an export nor a comparison")


def accept(folder: Path) -> None:
    """Take all files of a folder, as they are now, for what they should be."""
    run = RunFolder(folder)
    _check_is_ours(folder, MARKER_FILES)
    if run.in_use():
        raise RunError(f"{folder}: a process is writing there; wait for it, or stop it")
    run.rebuild_manifest()


def _roots(folder: Path) -> Iterator[Path]:
    """The folder, and those of ours in it: exports of a run, runs of a comparison."""
    yield folder
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if MANIFEST in files and Path(path) != folder:
            yield Path(path)


def _checkpoints(root: Path) -> dict[str, bool]:
    """Whether each checkpoint of a run is whole, which its name tells."""
    stages = (root / "checkpoints", root / "refined" / "checkpoints")
    paths = [path for stage in stages for path in list_checkpoints(stage)]
    return {path.relative_to(root).as_posix(): digest_matches(path) for path in paths}


def _compare(
    listed: Mapping[str, manifest.Digests],
    states: Mapping[str, str | None],
    checkpoints: Mapping[str, bool],
) -> Iterator[FileFinding]:
    """What is not as it is listed."""
    for name, state in states.items():
        wanted = listed.get(name, ())
        if not wanted:
            yield FileFinding(name, "unexpected", "")
        elif state is not None and state not in wanted:
            yield FileFinding(name, "damaged", "")
        elif state not in wanted and _remedy_for(name) is not None:
            yield FileFinding(name, "missing", "")
    yield from (
        FileFinding(name, "damaged", "") for name, whole in checkpoints.items() if not whole
    )


def _remedy_for(name: str) -> str | None:
    """What to do for a file of that name; None: no run needs it."""
    return next((remedy for shape, remedy in REMEDIES if re.fullmatch(shape, name)), None)


def _listed_states(folder: Path, name: str) -> manifest.Digests:
    """What a file should hold."""
    try:
        entry = manifest.find_entry(folder / name)
    except DamagedError:
        return ()
    return entry.states if entry else ()


def _remedy(
    one: FileFinding, folder: Path, copies: Mapping[str, str], wanted: manifest.Digests
) -> str:
    """What to do for a file; where another holds what it should, to copy that."""
    if one.state == "unexpected":
        return "regard does not read it"
    same = next((copies[state] for state in wanted if state is not None and state in copies), None)
    if same is not None:
        return f"copy {folder / same}, which is the same"
    return (_remedy_for(one.file) or OTHER_REMEDY).format(run=folder)
