"""Exports: folders with a model for CTranslate2, its tokenizers and a card."""

from contextlib import suppress
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import JsonValue, NonNegativeInt, PositiveInt

from regard.atomic_io import write_atomic
from regard.decoding.settings import DecodingSettings
from regard.errors import DamagedError, RunError, StorageError
from regard.json_files import read_json
from regard.manifest import check_file, sha256_of_file
from regard.recipes.paths import EXPORT_INFO, RECIPE_FILE
from regard.settings import Settings
from regard.text.segmentation import InputSettings

CARD_FILE = EXPORT_INFO
MODEL_FILE = "model.bin"
EXPORTS_FOLDER = "ctranslate2"  # the folder of a run with its exports

ExportPrecision = Literal[
    "auto", "float32", "int8", "int8_float32", "int8_bfloat16", "bfloat16", "int16"
]
"""The precision of matrix products; auto: int8 if it is close enough, else float32."""


class TranslationDifference(Settings):
    """A sentence that two engines translate differently."""

    source: str
    native: str
    exported: str


class ParityReport(Settings):
    """How an export compares with the native engine on a sample of sentences."""

    sentences: NonNegativeInt
    identical: NonNegativeInt
    """Sentences with the same translation in float32."""
    score_difference: float
    """The largest difference of scores in float32."""
    same: NonNegativeInt
    """Sentences whose translation is the same in the precision that is used."""
    loss: float
    """By how much the model's own translations are more likely than those of the export, in nats a
    token."""
    refused: str | None = None
    """Why the export may not be used; none: it may."""
    instead: str | None = None
    """Why a lower precision that `auto` tried first was refused; none: none was tried."""
    differences: tuple[TranslationDifference, ...] = ()
    """Some of the translations that differ."""


class WeightsStamp(Settings):
    """Which weights an export was made of."""

    bytes: NonNegativeInt
    mtime_ns: int
    sha256: str


class ExportCard(Settings):
    """The card of an export: what it was made from, and what the engine needs of its run."""

    version: Literal[1] = 1
    engine: str
    """The version of CTranslate2."""
    precision: ExportPrecision
    run: str
    """The name of the run's folder."""
    weights: WeightsStamp
    recipe_sha256: str
    model: dict[str, JsonValue] | None = None
    """The settings of the run's model; none: the card is older than this field."""
    decoding: DecodingSettings
    """The run's `decoding`."""
    input: InputSettings | None = None
    """The run's `input`; none: the run is older than this setting."""
    longest: PositiveInt
    """The length limit of a source, in tokens."""
    positions: PositiveInt | None
    """The number of positions of the export; none: unlimited."""
    limit: PositiveInt | None
    """The number of positions of the model itself; none: unlimited."""
    model_bytes: NonNegativeInt
    """Size of the file of the weights; 0: the export was refused and has no weights."""
    gate: ParityReport


class ExportArtifact(NamedTuple):
    """An export on disk."""

    folder: Path
    card: ExportCard


def read_export(folder: Path) -> ExportArtifact | None:
    """The export in `folder`; None if there is none, or its card or its size is damaged.

    The content of its files is checked by `check_folder`.
    """
    try:
        check_file(folder / CARD_FILE)
        card = read_json(folder / CARD_FILE, ExportCard)
        whole = not card.model_bytes or (folder / MODEL_FILE).stat().st_size == card.model_bytes
    except (OSError, ValueError, DamagedError):
        return None
    return ExportArtifact(folder, card) if whole else None


def is_export(path: Path) -> bool:
    """Whether a folder is an export rather than a run."""
    return (path / CARD_FILE).is_file()


def open_export(path: Path) -> ExportArtifact:
    """The export in the folder `path`; an error if it is damaged or was refused."""
    found = read_export(path)
    if found is None:
        raise damaged_export_error(path)
    if found.card.gate.refused:
        raise RunError(f"{path}: this export was refused: {found.card.gate.refused}")
    return found


def damaged_export_error(path: Path) -> RunError:
    """The error for an export that cannot be read."""
    return RunError(
        f"{path}: a damaged export, or one of another version of regard or CTranslate2; make it "
        "again with: regard export RUN --to DIR"
    )


def find_export(
    run: Path, file: Path, name: str, precision: ExportPrecision
) -> ExportArtifact | None:
    """The export of the run's weights `name` as they now are in `file`.

    Unless refused, an export made for `auto` is also found for the precision that it has, and an
    export for int8, which `auto` tries first, for `auto`.
    """
    for kind in (precision, "int8" if precision == "auto" else "auto"):
        for folder in export_folders(run, name, kind):
            found = read_export(folder)
            if found is None or not _is_current(found, run, file):
                continue
            usable = found.card.gate.refused is None
            if kind == precision or (usable and precision in ("auto", found.card.precision)):
                return found
    return None


def export_folders(run: Path, name: str, precision: str) -> list[Path]:
    """The folders of exports of these weights in this precision, older versions included."""
    parent = run / EXPORTS_FOLDER
    found = [] if parent.is_symlink() else sorted(parent.glob(f"{name}-{precision}-*"))
    return [folder for folder in found if not folder.is_symlink()]  # cards are written there


def stamp_weights(file: Path) -> WeightsStamp:
    """The identity of the weights in a file."""
    found = file.stat()
    digest = sha256_of_file(file)
    return WeightsStamp(bytes=found.st_size, mtime_ns=found.st_mtime_ns, sha256=digest)


def _is_current(found: ExportArtifact, run: Path, file: Path) -> bool:
    """Whether an export was made of the run as it is now.

    Weights of equal size and time count as equal; if the time differs they are read, and the new
    time is written to the card if possible.
    """
    card, weights = found.card, found.card.weights
    try:
        stat = file.stat()
        if sha256_of_file(run / RECIPE_FILE) != card.recipe_sha256 or stat.st_size != weights.bytes:
            return False
        if stat.st_mtime_ns == weights.mtime_ns:
            return True
        if sha256_of_file(file) != weights.sha256:
            return False
    except OSError:
        return False
    stamp = weights.model_copy(update={"mtime_ns": stat.st_mtime_ns})
    with suppress(StorageError):
        write_card(found.folder, card.model_copy(update={"weights": stamp}))
    return True


def write_card(folder: Path, card: ExportCard) -> None:
    """Write the card of an export."""
    write_atomic(folder / CARD_FILE, f"{card.model_dump_json(indent=1)}\n".encode())
