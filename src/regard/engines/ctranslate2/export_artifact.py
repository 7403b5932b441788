"""A model as CTranslate2 reads it, in a folder: what is in it, and whether it is still the run's.

The folder holds all that translating takes, so that it can be used where the run is not: the files
of CTranslate2, the tokenizers, and a card.
"""

import os
import shutil
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import NonNegativeInt, PositiveInt

from regard.atomic_io import write_atomic
from regard.decoding.settings import DecodingSettings
from regard.errors import DamagedError, RunError, StorageError
from regard.json_files import read_json
from regard.manifest import check_file, read_manifest, sha256_of_file
from regard.recipes.paths import EXPORT_INFO, RECIPE_FILE
from regard.settings import Settings
from regard.text.segmentation import InputSettings

CARD_FILE = EXPORT_INFO
MODEL_FILE = "model.bin"
EXPORTS_FOLDER = "ctranslate2"
"""In a run's folder, where its exports lie."""

Precision = Literal["auto", "float32", "int8", "int8_float32", "int8_bfloat16", "bfloat16", "int16"]
"""What matrices are multiplied in; auto: int8 where it is close enough, else float32."""


class TranslationDifference(Settings):
    """A sentence to which two engines said unlike things."""

    source: str
    native: str
    exported: str


class ParityReport(Settings):
    """How an export compares with the native engine on a sample of sentences."""

    sentences: NonNegativeInt
    identical: NonNegativeInt
    """Sentences with the same translation in float32."""
    score_difference: float
    """The most by which scores differ there."""
    same: NonNegativeInt
    """Sentences whose translation is the same in the precision that is used."""
    loss: float
    """By how much the model holds the translations of that precision less likely than its own, in
    nats a token."""
    refused: str | None = None
    """Why the export may not be used; none: it may."""
    instead: str | None = None
    """Why a lower precision, which `auto` tried before, was not close enough; none: none was."""
    differences: tuple[TranslationDifference, ...] = ()
    """Some of the translations that differ."""


class WeightsStamp(Settings):
    """Which weights an export was made of."""

    bytes: NonNegativeInt
    mtime_ns: int
    sha256: str


class ExportCard(Settings):
    """What an export is, and all that the engine needs to know of its run."""

    version: Literal[1] = 1
    engine: str
    """The CTranslate2 that it was made with."""
    precision: Precision
    run: str
    """The folder of the run that it was made of."""
    weights: WeightsStamp
    recipe_sha256: str
    decoding: DecodingSettings
    """The run's own."""
    input: InputSettings | None = None
    """The run's own; none: it was made before runs had it."""
    longest: PositiveInt
    """Most tokens of a source."""
    positions: PositiveInt | None
    """Positions that the export can tell; none: any number."""
    limit: PositiveInt | None
    """Positions that the model itself can tell; none: any number."""
    model_bytes: NonNegativeInt
    """Size of the file of the weights; 0: they were refused and are not there."""
    gate: ParityReport


class ExportArtifact(NamedTuple):
    """An export that is there."""

    folder: Path
    card: ExportCard


def read_export(folder: Path) -> ExportArtifact | None:
    """The export in `folder`; None where there is none that is whole.

    Its model, which is large, is only looked at here; see `check_export`.
    """
    try:
        check_file(folder / CARD_FILE)
        card = read_json(folder / CARD_FILE, ExportCard)
        whole = not card.model_bytes or (folder / MODEL_FILE).stat().st_size == card.model_bytes
    except (OSError, ValueError, DamagedError):
        return None
    return ExportArtifact(folder, card) if whole else None


def check_export(folder: Path) -> None:
    """An error if a file of an export is not what was written there."""
    for name in read_manifest(folder) or ():
        check_file(folder / name)


def is_export(path: Path) -> bool:
    """Whether a folder is an export rather than a run."""
    return (path / CARD_FILE).is_file()


def open_export(path: Path) -> ExportArtifact:
    """The export in `path`, which is one."""
    found = read_export(path)
    if found is None:
        raise damaged_export_error(path)
    if found.card.gate.refused:
        raise RunError(f"{path}: this export was refused: {found.card.gate.refused}")
    return found


def damaged_export_error(path: Path) -> RunError:
    """What to tell a person whose export cannot be read."""
    return RunError(
        f"{path}: a damaged export, or one of another version of regard or CTranslate2; make it "
        "again with: regard export RUN --to DIR"
    )


def find_export(run: Path, file: Path, name: str, precision: Precision) -> ExportArtifact | None:
    """The export of the run's weights `name`, which lie in `file`, made of them as they are now.

    What `auto` came to serves whoever asks for that precision, and the int8 that `auto` tries first
    serves as well where it was made by that name; only who was refused tries again.
    """
    alternative: Precision = "int8" if precision == "auto" else "auto"
    for folder in [*export_folders(run, name, precision), *export_folders(run, name, alternative)]:
        found = read_export(folder)
        if (
            found is not None
            and _is_current(found, run, file)
            and _matches_precision(found, precision)
        ):
            return found
    return None


def _matches_precision(found: ExportArtifact, precision: Precision) -> bool:
    """Whether an export, made for this precision or a kindred one, is what would be made for it."""
    if found.folder.name.rsplit("-", 2)[1] == precision:
        return True
    return found.card.gate.refused is None and precision in ("auto", found.card.precision)


def export_folders(run: Path, name: str, precision: Precision) -> list[Path]:
    """Where exports of these weights in this precision lie, of now or of before."""
    parent = run / EXPORTS_FOLDER
    found = [] if parent.is_symlink() else sorted(parent.glob(f"{name}-{precision}-*"))
    return [folder for folder in found if not folder.is_symlink()]  # cards are written there


def delete_export(export: ExportArtifact) -> None:
    """Remove an export that is of no use."""
    shutil.rmtree(export.folder, ignore_errors=True)


def stamp_weights(file: Path) -> WeightsStamp:
    """What tells these weights from others."""
    found = file.stat()
    return WeightsStamp(
        bytes=found.st_size, mtime_ns=found.st_mtime_ns, sha256=sha256_of_file(file)
    )


def _is_current(found: ExportArtifact, run: Path, file: Path) -> bool:
    """Whether an export was made of the run as it is now.

    Weights of the same size and time are taken for the same; other times have them read, and
    noted where that is allowed: a run that was copied is read once.
    """
    card = found.card
    try:
        file_stat = os.stat(file)
        if (
            sha256_of_file(run / RECIPE_FILE) != card.recipe_sha256
            or file_stat.st_size != card.weights.bytes
        ):
            return False
        if file_stat.st_mtime_ns == card.weights.mtime_ns:
            return True
        if sha256_of_file(file) != card.weights.sha256:
            return False
    except OSError:
        return False
    stamp = card.weights.model_copy(update={"mtime_ns": file_stat.st_mtime_ns})
    write_card(found.folder, card.model_copy(update={"weights": stamp}), required=False)
    return True


def write_card(folder: Path, card: ExportCard, *, required: bool = True) -> None:
    """Write the card of an export; where it is not `needed`, only if that can be done."""
    with nullcontext() if required else suppress(StorageError):
        write_atomic(folder / CARD_FILE, f"{card.model_dump_json(indent=1)}\n".encode())
