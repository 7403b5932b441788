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

from regard.errors import RunError, SettingsError, StorageError
from regard.exchange.to_ctranslate2 import why_not, write_model
from regard.files import refuse_linked_folders, storage_error
from regard.layers.quantised import Precision as NativePrecision
from regard.manifest import MANIFEST, digest_of, rebuild
from regard.recipes.input_form import input_of
from regard.recipes.places import NAMED_WEIGHTS
from regard.recipes.run_folder import Run
from regard.serving.exported import (
    CARD,
    FOLDER,
    MODEL,
    Card,
    Exported,
    GateReport,
    Precision,
    export_folders,
    read_export,
    stamp_weights,
    write_card,
)
from regard.serving.fast import Fast
from regard.serving.gate import examine
from regard.serving.searching import native_only
from regard.text.build import save_tokenizers

POSITIONS = 1024
"""That an export can tell at least, where they have no end."""
UNFINISHED = ".regard-export-"
EXPORT_FILE = re.compile(
    r"(export|config|manifest|(shared|source|target)_vocabulary)\.json"
    r"|model\.bin|(tokenizer|source|target)\.(json|model)"
)
"""What an export may hold."""
OLD = 60
"""Seconds after which a folder that no process holds is taken for left behind by a dead one."""


def check_exportable(run: Run) -> None:
    """An error if CTranslate2 cannot run the run's model."""
    reason = why_not(run.recipe.model)
    if reason is not None:
        raise SettingsError(f"{run.folder.path}: cannot be exported: {reason}")


class Attempt(NamedTuple):
    """What became of making an export."""

    export: Exported | None
    """None: there is none, and there is no fault in that."""
    remark: str = ""
    """What a person should know of it."""


def try_export(
    run: Run,
    weights: str,
    precision: Precision,
    *,
    needed: bool,
    tell: Callable[[str], None],
) -> Attempt:
    """An export of the run's weights, kept in its folder; unless it is `needed`, if it can be made.

    None is made of a model that CTranslate2 cannot run, nor of a run whose own search it does not
    know: nobody would use it. `tell` is told when one is begun: a sample of sentences is translated
    three times, and somebody waits.
    """
    if not needed and (why_not(run.recipe.model) or native_only(run.recipe.decoding)):
        return Attempt(None)
    _choices(precision)  # an error is told first
    tell("exporting for CTranslate2, which translates faster; this takes a while, once")
    try:
        export = keep_export(run, weights, precision)
    except StorageError as error:
        if needed:
            raise
        hint = f"regard export {run.folder.path} --to DIR makes one elsewhere"
        return Attempt(None, f"no export for the faster engine can be kept: {error}; {hint}")
    except (ValueError, RuntimeError) as error:  # CTranslate2's, or a mistake of ours
        if needed:
            raise
        return Attempt(None, f"no export for the faster engine could be made: {error}")
    gate = export.card.gate
    if gate.refused:
        return Attempt(export)
    remark = (
        f"exported for CTranslate2: {gate.same} of {gate.sentences} sentences are translated as by "
        f"the native engine, in {export.card.precision}"
    )
    return Attempt(export, f"{remark}; {gate.instead}" if gate.instead else remark)


def keep_export(run: Run, weights: str, precision: Precision) -> Exported:
    """Export the run's weights of that name into its own folder, in the place of older ones.

    Of two processes that do so at once one finds the other's export there, and uses that.
    """
    check_exportable(run)
    if weights != "model" and weights not in NAMED_WEIGHTS:
        raise SettingsError(
            f"{weights}: exports are kept of a run's own weights; give a folder for this one: --to"
        )
    refuse_linked_folders(run.folder.path)
    parent = run.folder.path / FOLDER
    with _making(parent) as folder:
        export = _make(run, run.folder.weights(weights), folder, precision)
        place = parent / f"{weights}-{precision}-{export.card.weights.sha256[:8]}"
        _put(folder, place)
    for other in export_folders(run.folder.path, weights, precision):
        if other != place:
            shutil.rmtree(other, ignore_errors=True)
    return Exported(place, export.card)


def export_to(run: Run, weights: str, precision: Precision, place: Path) -> Exported:
    """Export the run's weights into a folder of its own, which must be new or an older export."""
    check_exportable(run)
    if place.exists() and not place.is_dir():
        raise RunError(f"{place}: a file; name a folder that is new or empty")
    if place.exists() and not _is_ours(place):
        raise RunError(f"{place}: holds something else; name a folder that is new or empty")
    with _making(place.parent) as folder:
        export = _make(run, run.folder.weights(weights), folder, precision)
        if export.card.gate.refused is None:
            _put(folder, place)
    return Exported(place, export.card)


def _is_ours(place: Path) -> bool:
    """Whether there is nothing in a folder, or an export and nothing else."""
    others = [path.name for path in place.iterdir() if not EXPORT_FILE.fullmatch(path.name)]
    return not others and ((place / CARD).is_file() or not any(place.iterdir()))


def _make(run: Run, file: Path, folder: Path, precision: Precision) -> Exported:
    """The export in `folder`, its weights only if they pass the gate.

    If nothing else is asked for, int8 is tried, and float32 where that is not close enough.
    """
    choices = _choices(precision)
    with _making(folder.parent) as aside:
        exact = _write(run, file, aside, "float32")
        instead = None
        for choice in choices:
            export = exact if choice == "float32" else _write(run, file, folder, choice)
            report = examine(run, Fast(exact), Fast(export))
            report = report.model_copy(update={"instead": instead})
            if report.refused is None:
                break
            instead = f"{choice} is not close enough: less likely by {report.loss:.3f} nats a token"
        if choice == "float32":
            for content in aside.iterdir():  # moved: there may be no room for a copy
                content.replace(folder / content.name)
    if report.refused is not None:
        for content in folder.iterdir():
            content.unlink()
    return Exported(folder, _finish(folder, export.card, report))


def _choices(precision: Precision) -> list[Precision]:
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


def _write(run: Run, file: Path, folder: Path, precision: Precision) -> Exported:
    """The model and its tokenizers in `folder`, with a card that knows of no gate yet."""
    wanted = max(POSITIONS, run.longest + 1)
    try:
        positions = write_model(
            run.model, run.recipe.model, folder, precision=precision, positions=wanted
        )
    except OSError as error:
        raise storage_error(folder / MODEL, error) from error
    save_tokenizers(run.tokenizers, folder)
    card = Card(
        engine=f"ctranslate2 {ctranslate2.__version__}",
        precision=precision,
        run=run.folder.path.resolve().name,
        weights=stamp_weights(file),
        recipe_sha256=digest_of(run.folder.recipe),
        decoding=run.recipe.decoding,
        input=input_of(run.recipe, run.folder.path),
        longest=run.longest,
        positions=positions,
        limit=run.model.limit,
        model_bytes=(folder / MODEL).stat().st_size,
        gate=GateReport(sentences=0, identical=0, score_difference=0.0, same=0, loss=0.0),
    )
    return Exported(folder, card)


def _finish(folder: Path, card: Card, report: GateReport) -> Card:
    """Write the card, and see to it that all files are on the disk."""
    size = 0 if report.refused else card.model_bytes
    card = card.model_copy(update={"gate": report, "model_bytes": size})
    write_card(folder, card)
    try:
        rebuild(folder, {}, lock=False)  # the folder itself is locked
        folder.chmod(0o755)  # as any folder, not for us alone
        for file in folder.iterdir():
            with file.open("rb") as content:
                os.fsync(content.fileno())
    except OSError as error:
        raise storage_error(folder, error) from error
    return card


@contextmanager
def _making(parent: Path) -> Iterator[Path]:
    """A folder to make an export in, which is gone afterwards unless it was put in its place."""
    try:
        parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=UNFINISHED))
    except OSError as error:
        raise storage_error(parent, error) from error
    with _held(folder, needed=False):
        _sweep(parent)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove what processes that were killed have left unfinished."""
    for folder in parent.glob(f"{UNFINISHED}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > OLD:
                with _held(folder):
                    shutil.rmtree(folder)


@contextmanager
def _held(folder: Path, *, needed: bool = True) -> Iterator[None]:
    """Hold a folder for as long as this process lives; an `OSError` where another one does.

    Unless it is `needed`, nothing is held on a disk that knows no locks: nobody sweeps there.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        with nullcontext() if needed else suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _put(folder: Path, place: Path) -> None:
    """Move a finished export to its place; another gives way, unless it is the same one."""
    mine, there = read_export(folder), read_export(place)
    assert mine is not None
    if there is not None and _origin(there.card) == _origin(mine.card) and _alike(folder, place):
        return  # another process was faster; it may be in use already
    before = folder.with_name(f"{folder.name}-before")
    try:
        if place.exists():
            place.rename(before)
        folder.rename(place)
    except OSError as error:
        raise storage_error(place, error) from error
    shutil.rmtree(before, ignore_errors=True)


def _origin(card: Card) -> tuple[str, str, str]:
    """What an export is made of, and by what."""
    return card.weights.sha256, card.recipe_sha256, card.engine


def _alike(folder: Path, other: Path) -> bool:
    """Whether two exports hold the same files; their cards may have been written at other times."""
    names = {path.name for path in folder.iterdir()} - {CARD, MANIFEST}
    same, _, _ = filecmp.cmpfiles(folder, other, names, shallow=False)
    return len(same) == len(names)
