"""A run -> an export that passed the parity check, in the run's folder or another."""

import filecmp
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import ctranslate2

from regard.atomic_io import check_no_linked_folders, storage_error, temporary_folder
from regard.decoding.settings import native_only_reason
from regard.engines.ctranslate2.ct2_engine import CTranslate2Engine
from regard.engines.ctranslate2.export_artifact import (
    CARD_FILE,
    EXPORTS_FOLDER,
    MODEL_FILE,
    ExportArtifact,
    ExportCard,
    ExportPrecision,
    ParityReport,
    export_folders,
    read_export,
    stamp_weights,
    write_card,
)
from regard.engines.ctranslate2.parity_check import check_parity
from regard.errors import RegardError, RunError, SettingsError, StorageError
from regard.exchange.ctranslate2_spec import unsupported_reason, write_model
from regard.layers.quantized import NativePrecision
from regard.manifest import MANIFEST, rebuild_manifest, sha256_of_file
from regard.recipes.open_run import Run
from regard.recipes.paths import NAMED_WEIGHTS, check_not_packaged
from regard.settings import quoted
from regard.text.build import save_tokenizers

POSITIONS = 1024  # the least number of positions of an export of a model without a limit
EXPORT_FILE = re.compile(
    r"(export|config|manifest|(shared|source|target)_vocabulary)\.json"
    r"|model\.bin|(tokenizer|source|target)\.(json|model)"
)


def require_exportable(run: Run) -> None:
    """Raise an error if CTranslate2 cannot run the run's model."""
    reason = unsupported_reason(run.recipe.model)
    if not run.spec.ctranslate2:
        reason = f"its task is {run.recipe.task}, and exports can only translate"
    if reason is not None:
        raise SettingsError(f"{run.folder.path}: cannot be exported: {reason}")


def try_export(
    run: Run,
    weights: str,
    precision: ExportPrecision,
    *,
    required: bool,
    tell: Callable[[str], None],
) -> tuple[ExportArtifact | None, str]:
    """An export of the run's weights in its folder, and a remark for the user.

    Unless `required`, the export is None if it cannot be made or saved, or if CTranslate2 lacks a
    part of the model or its search.
    """
    if not required and (
        unsupported_reason(run.recipe.model) or native_only_reason(run.recipe.decoding)
    ):
        return None, ""
    _precisions_to_try(precision)  # its error comes before the message
    tell("exporting for CTranslate2, which translates faster; this takes a while, but only once")
    try:
        export = export_into_run(run, weights, precision)
    except (RegardError, ValueError, RuntimeError) as error:  # the last two: CTranslate2's
        if required:
            raise
        if isinstance(error, StorageError):
            hint = f"regard export {quoted(run.folder.path)} --to DIR makes one elsewhere"
            return None, f"no export for the faster engine can be saved: {error}; {hint}"
        return None, f"no export for the faster engine could be made: {error}"
    gate = export.card.gate
    if gate.refused:
        return export, ""
    remark = (
        f"exported for CTranslate2: {gate.same} of {gate.sentences} sentences have the native "
        f"engine's translation, in {export.card.precision}"
    )
    return export, f"{remark}; {gate.instead}" if gate.instead else remark


def export_into_run(run: Run, weights: str, precision: ExportPrecision) -> ExportArtifact:
    """Export the run's weights of that name into its own folder, replacing older exports.

    If two processes do so at once, one uses the export of the other.
    """
    require_exportable(run)
    if weights != "model" and weights not in NAMED_WEIGHTS:
        raise SettingsError(
            f"{weights}: a run's folder has exports of its own weights only; give a folder: --to"
        )
    check_not_packaged(run.folder.path, "no export is", "DIR")
    check_no_linked_folders(run.folder.path)
    parent = run.folder.path / EXPORTS_FOLDER
    with temporary_folder(parent) as folder:
        export = _build_export(run, run.folder.weights(weights), folder, precision)
        place = parent / f"{weights}-{precision}-{export.card.weights.sha256[:8]}"
        _move_into_place(folder, place)
    for other in export_folders(run.folder.path, weights, precision):
        if other != place:
            shutil.rmtree(other, ignore_errors=True)
    return ExportArtifact(place, export.card)


def export_to(run: Run, weights: str, precision: ExportPrecision, place: Path) -> ExportArtifact:
    """Export the run's weights into a folder that is new or has an older export."""
    require_exportable(run)
    if place.exists() and not place.is_dir():
        raise RunError(f"{place}: a file; name a folder that is new or empty")
    names = [path.name for path in place.iterdir()] if place.exists() else []
    if names and not (CARD_FILE in names and all(map(EXPORT_FILE.fullmatch, names))):
        raise RunError(f"{place}: has other files in it; name a folder that is new or empty")
    with temporary_folder(place.parent) as folder:
        export = _build_export(run, run.folder.weights(weights), folder, precision)
        if export.card.gate.refused is None:
            _move_into_place(folder, place)
    return ExportArtifact(place, export.card)


def _build_export(run: Run, file: Path, folder: Path, precision: ExportPrecision) -> ExportArtifact:
    """The export in `folder`, without its weights if it did not pass the parity check."""
    precisions = _precisions_to_try(precision)
    with temporary_folder(folder.parents[1]) as exact_folder:
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
            for content in exact_folder.iterdir():  # moved: a copy may not fit on the disk
                content.replace(folder / content.name)
    if report.refused is not None:
        for content in folder.iterdir():
            content.unlink()
    return ExportArtifact(folder, _write_card(folder, export.card, report))


def _precisions_to_try(precision: ExportPrecision) -> list[ExportPrecision]:
    """The precisions to try in order; the first that is close enough is used."""
    supported = ctranslate2.get_supported_compute_types("cpu")
    if precision == "auto":
        return ["int8", "float32"] if "int8" in supported else ["float32"]
    if precision not in supported:
        native = "; the native engine has it" if precision in get_args(NativePrecision) else ""
        raise SettingsError(
            f"precision {precision}: CTranslate2 does not support it on this processor, only "
            f"{', '.join(sorted(supported))}{native}"
        )
    return [precision]


def _write(run: Run, file: Path, folder: Path, precision: ExportPrecision) -> ExportArtifact:
    """Write the model and its tokenizers; the card has no result of the parity check yet."""
    num_positions = max(POSITIONS, run.longest + 1)
    try:
        positions = write_model(
            run.model, run.recipe.model, folder, precision=precision, positions=num_positions
        )
    except OSError as error:
        raise storage_error(folder.parents[1], error) from error  # `folder` is temporary
    save_tokenizers(run.tokenizers, folder)
    card = ExportCard(
        engine=f"ctranslate2 {ctranslate2.__version__}",
        precision=precision,
        run=run.folder.path.resolve().name,
        weights=stamp_weights(file),
        recipe_sha256=sha256_of_file(run.folder.recipe),
        model=run.recipe.model.model_dump(mode="json"),
        decoding=run.recipe.decoding,
        input=run.task.input_settings(),
        longest=run.longest,
        positions=positions,
        limit=run.model.max_length,
        model_bytes=(folder / MODEL_FILE).stat().st_size,
        gate=ParityReport(sentences=0, identical=0, score_difference=0.0, same=0, loss=0.0),
    )
    return ExportArtifact(folder, card)


def _write_card(folder: Path, card: ExportCard, report: ParityReport) -> ExportCard:
    """Write the card and flush all files to the disk."""
    size = 0 if report.refused else card.model_bytes
    card = card.model_copy(update={"gate": report, "model_bytes": size})
    write_card(folder, card)
    try:
        rebuild_manifest(folder, {}, lock=False)
        for file in folder.iterdir():
            with file.open("rb") as content:
                os.fsync(content.fileno())
    except OSError as error:
        raise storage_error(folder, error) from error
    return card


def _move_into_place(folder: Path, place: Path) -> None:
    """Move a finished export to its place, replacing an older one unless it is the same."""
    mine, there = read_export(folder), read_export(place)
    assert mine is not None
    if there is not None and _is_same(mine, there):
        return  # another process was faster; its export may be in use already
    before = folder.with_name(f"{folder.name}-before")
    try:
        if place.exists():
            place.rename(before)
        folder.rename(place)
    except OSError as error:
        raise storage_error(place, error) from error
    shutil.rmtree(before, ignore_errors=True)


def _is_same(one: ExportArtifact, other: ExportArtifact) -> bool:
    """Whether two exports were made of the same run and have the same files, except the card."""
    made_of, other_made_of = (
        (card.weights.sha256, card.recipe_sha256, card.engine) for card in (one.card, other.card)
    )
    names = {path.name for path in one.folder.iterdir()} - {CARD_FILE, MANIFEST}
    same, _, _ = filecmp.cmpfiles(one.folder, other.folder, names, shallow=False)
    return made_of == other_made_of and len(same) == len(names)
