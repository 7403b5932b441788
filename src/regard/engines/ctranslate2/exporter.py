"""A run -> an export that passed the gate, written whole, kept in the run's folder."""

import fcntl
import filecmp
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import NamedTuple, get_args

import ctranslate2

from regard.atomic_io import check_no_linked_folders, storage_error
from regard.decoding.settings import native_only_reason
from regard.engines.ctranslate2.ct2_engine import CTranslate2Engine
from regard.engines.ctranslate2.export_artifact import (
    CARD_FILE,
    EXPORTS_FOLDER,
    MODEL_FILE,
    ExportArtifact,
    ExportCard,
    ParityReport,
    Precision,
    export_folders,
    read_export,
    stamp_weights,
    write_card,
)
from regard.engines.ctranslate2.parity_check import check_parity
from regard.errors import RunError, SettingsError, StorageError
from regard.exchange.ctranslate2_spec import unsupported_reason, write_model
from regard.layers.quantized import Precision as NativePrecision
from regard.manifest import MANIFEST, rebuild_manifest, sha256_of_file
from regard.recipes.auto_settings import run_input_settings
from regard.recipes.paths import NAMED_WEIGHTS
from regard.recipes.run_folder import Run
from regard.text.build import save_tokenizers

POSITIONS = 1024
"""That an export can tell at least, where they have no end."""
TEMPORARY_PREFIX = ".regard-export-"
EXPORT_FILE = re.compile(
    r"(export|config|manifest|(shared|source|target)_vocabulary)\.json"
    r"|model\.bin|(tokenizer|source|target)\.(json|model)"
)
"""What an export may hold."""
STALE_SECONDS = 60
"""Seconds after which a folder that no process holds is taken for left behind by a dead one."""


def require_exportable(run: Run) -> None:
    """An error if CTranslate2 cannot run the run's model."""
    reason = unsupported_reason(run.recipe.model)
    if reason is not None:
        raise SettingsError(f"{run.folder.path}: cannot be exported: {reason}")


class ExportAttempt(NamedTuple):
    """What became of making an export."""

    export: ExportArtifact | None
    """None: there is none, and there is no fault in that."""
    remark: str = ""
    """What a person should know of it."""


def try_export(
    run: Run,
    weights: str,
    precision: Precision,
    *,
    required: bool,
    tell: Callable[[str], None],
) -> ExportAttempt:
    """An export of the run's weights, kept in its folder; unless it is `needed`, if it can be made.

    None is made of a model that CTranslate2 cannot run, nor of a run whose own search it does not
    know: nobody would use it. `tell` is told when one is begun: a sample of sentences is translated
    three times, and somebody waits.
    """
    if not required and (
        unsupported_reason(run.recipe.model) or native_only_reason(run.recipe.decoding)
    ):
        return ExportAttempt(None)
    _precisions_to_try(precision)  # an error is told first
    tell("exporting for CTranslate2, which translates faster; this takes a while, once")
    try:
        export = export_into_run(run, weights, precision)
    except StorageError as error:
        if required:
            raise
        hint = f"regard export {run.folder.path} --to DIR makes one elsewhere"
        return ExportAttempt(None, f"no export for the faster engine can be kept: {error}; {hint}")
    except (ValueError, RuntimeError) as error:  # CTranslate2's, or a mistake of ours
        if required:
            raise
        return ExportAttempt(None, f"no export for the faster engine could be made: {error}")
    gate = export.card.gate
    if gate.refused:
        return ExportAttempt(export)
    remark = (
        f"exported for CTranslate2: {gate.same} of {gate.sentences} sentences are translated as by "
        f"the native engine, in {export.card.precision}"
    )
    return ExportAttempt(export, f"{remark}; {gate.instead}" if gate.instead else remark)


def export_into_run(run: Run, weights: str, precision: Precision) -> ExportArtifact:
    """Export the run's weights of that name into its own folder, in the place of older ones.

    Of two processes that do so at once one finds the other's export there, and uses that.
    """
    require_exportable(run)
    if weights != "model" and weights not in NAMED_WEIGHTS:
        raise SettingsError(
            f"{weights}: exports are kept of a run's own weights; give a folder for this one: --to"
        )
    check_no_linked_folders(run.folder.path)
    parent = run.folder.path / EXPORTS_FOLDER
    with _temporary_folder(parent) as folder:
        export = _build_export(run, run.folder.weights(weights), folder, precision)
        place = parent / f"{weights}-{precision}-{export.card.weights.sha256[:8]}"
        _move_into_place(folder, place)
    for other in export_folders(run.folder.path, weights, precision):
        if other != place:
            shutil.rmtree(other, ignore_errors=True)
    return ExportArtifact(place, export.card)


def export_to(run: Run, weights: str, precision: Precision, place: Path) -> ExportArtifact:
    """Export the run's weights into a folder of its own, which must be new or an older export."""
    require_exportable(run)
    if place.exists() and not place.is_dir():
        raise RunError(f"{place}: a file; name a folder that is new or empty")
    if place.exists() and not _is_replaceable(place):
        raise RunError(f"{place}: holds something else; name a folder that is new or empty")
    with _temporary_folder(place.parent) as folder:
        export = _build_export(run, run.folder.weights(weights), folder, precision)
        if export.card.gate.refused is None:
            _move_into_place(folder, place)
    return ExportArtifact(place, export.card)


def _is_replaceable(place: Path) -> bool:
    """Whether there is nothing in a folder, or an export and nothing else."""
    others = [path.name for path in place.iterdir() if not EXPORT_FILE.fullmatch(path.name)]
    return not others and ((place / CARD_FILE).is_file() or not any(place.iterdir()))


def _build_export(run: Run, file: Path, folder: Path, precision: Precision) -> ExportArtifact:
    """The export in `folder`, its weights only if they pass the gate.

    If nothing else is asked for, int8 is tried, and float32 where that is not close enough.
    """
    precisions = _precisions_to_try(precision)
    with _temporary_folder(folder.parent) as exact_folder:
        exact = _write(run, file, exact_folder, "float32")
        instead = None
        for candidate in precisions:
            export = exact if candidate == "float32" else _write(run, file, folder, candidate)
            report = check_parity(run, CTranslate2Engine(exact), CTranslate2Engine(export))
            report = report.model_copy(update={"instead": instead})
            if report.refused is None:
                break
            instead = (
                f"{candidate} is not close enough: less likely by {report.loss:.3f} nats a token"
            )
        if candidate == "float32":
            for content in exact_folder.iterdir():  # moved: there may be no room for a copy
                content.replace(folder / content.name)
    if report.refused is not None:
        for content in folder.iterdir():
            content.unlink()
    return ExportArtifact(folder, _write_card(folder, export.card, report))


def _precisions_to_try(precision: Precision) -> list[Precision]:
    """The precisions to try, the first that is close enough to be used."""
    there = ctranslate2.get_supported_compute_types("cpu")
    if precision == "auto":
        return ["int8", "float32"] if "int8" in there else ["float32"]
    if precision not in there:
        native = "; the native engine has it" if precision in get_args(NativePrecision) else ""
        raise SettingsError(
            f"precision {precision}: CTranslate2 does not have it on this processor, but "
            f"{', '.join(sorted(there))}{native}"
        )
    return [precision]


def _write(run: Run, file: Path, folder: Path, precision: Precision) -> ExportArtifact:
    """The model and its tokenizers in `folder`, with a card that knows of no gate yet."""
    num_positions = max(POSITIONS, run.longest + 1)
    try:
        positions = write_model(
            run.model, run.recipe.model, folder, precision=precision, positions=num_positions
        )
    except OSError as error:
        raise storage_error(folder / MODEL_FILE, error) from error
    save_tokenizers(run.tokenizers, folder)
    card = ExportCard(
        engine=f"ctranslate2 {ctranslate2.__version__}",
        precision=precision,
        run=run.folder.path.resolve().name,
        weights=stamp_weights(file),
        recipe_sha256=sha256_of_file(run.folder.recipe),
        decoding=run.recipe.decoding,
        input=run_input_settings(run.recipe, run.folder.path),
        longest=run.longest,
        positions=positions,
        limit=run.model.max_length,
        model_bytes=(folder / MODEL_FILE).stat().st_size,
        gate=ParityReport(sentences=0, identical=0, score_difference=0.0, same=0, loss=0.0),
    )
    return ExportArtifact(folder, card)


def _write_card(folder: Path, card: ExportCard, report: ParityReport) -> ExportCard:
    """Write the card, and see to it that all files are on the disk."""
    size = 0 if report.refused else card.model_bytes
    card = card.model_copy(update={"gate": report, "model_bytes": size})
    write_card(folder, card)
    try:
        rebuild_manifest(folder, {}, lock=False)  # the folder itself is locked
        folder.chmod(0o755)  # as any folder, not for us alone
        for file in folder.iterdir():
            with file.open("rb") as content:
                os.fsync(content.fileno())
    except OSError as error:
        raise storage_error(folder, error) from error
    return card


@contextmanager
def _temporary_folder(parent: Path) -> Iterator[Path]:
    """A folder to make an export in, which is gone afterwards unless it was put in its place."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=TEMPORARY_PREFIX))
    except OSError as error:
        raise storage_error(parent, error) from error
    with _locked(folder, required=False):
        _remove_stale(parent)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _remove_stale(parent: Path) -> None:
    """Remove what processes that were killed have left unfinished."""
    for folder in parent.glob(f"{TEMPORARY_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > STALE_SECONDS:
                with _locked(folder):
                    shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path, *, required: bool = True) -> Iterator[None]:
    """Hold a folder for as long as this process lives; an `OSError` where another one does.

    Unless it is `needed`, nothing is held on a disk that knows no locks: nobody sweeps there.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        with nullcontext() if required else suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _move_into_place(folder: Path, place: Path) -> None:
    """Move a finished export to its place; another gives way, unless it is the same one."""
    mine, there = read_export(folder), read_export(place)
    assert mine is not None
    if (
        there is not None
        and _provenance(there.card) == _provenance(mine.card)
        and _same_files(folder, place)
    ):
        return  # another process was faster; it may be in use already
    before = folder.with_name(f"{folder.name}-before")
    try:
        if place.exists():
            place.rename(before)
        folder.rename(place)
    except OSError as error:
        raise storage_error(place, error) from error
    shutil.rmtree(before, ignore_errors=True)


def _provenance(card: ExportCard) -> tuple[str, str, str]:
    """What an export is made of, and by what."""
    return card.weights.sha256, card.recipe_sha256, card.engine


def _same_files(folder: Path, other: Path) -> bool:
    """Whether two exports hold the same files; their cards may have been written at other times."""
    names = {path.name for path in folder.iterdir()} - {CARD_FILE, MANIFEST}
    same, _, _ = filecmp.cmpfiles(folder, other, names, shallow=False)
    return len(same) == len(names)
