"""A folder of another toolkit -> a run that gives the same outputs."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from regard.atomic_io import read_limited, temporary_folder, write_atomic
from regard.decoding.settings import native_only_reason
from regard.errors import RunError
from regard.exchange.ctranslate2_file import MODEL_FILE
from regard.exchange.ctranslate2_spec import unsupported_reason
from regard.exchange.huggingface.folder import GGUF, gguf_error
from regard.manifest import check_folder, warn_without_manifest
from regard.pipelines.exchange.exchange_report import (
    ExchangeReport,
    publish,
    require_free,
)
from regard.pipelines.exchange.foreign_model import ForeignModel
from regard.pipelines.exchange.from_ctranslate2 import read_ctranslate2
from regard.pipelines.exchange.from_transformers import read_folder
from regard.recipes.paths import EXCHANGE_REPORT, EXPORT_INFO, require_folder
from regard.recipes.recipe_files import make_recipe
from regard.recipes.run_folder import RunFolder
from regard.tasks.contracts import TaskRecipe
from regard.tasks.translation.recipe import TranslationRecipe
from regard.text.build import save_tokenizers
from regard.training.checkpoints import check_finite, save_weights

MAX_LICENCE = 200  # characters of a licence's name that are kept
NOT_FINITE = "its files are damaged, or were saved in this state; get another copy of the model"


class ImportedRun(NamedTuple):
    """A run that was imported."""

    folder: Path
    report: ExchangeReport


def import_folder(
    source: Path,
    out: Path,
    *,
    name: str | None = None,
    languages: Mapping[str, str] | None = None,
) -> ImportedRun:
    """Import a folder as the run `out`.

    If the gate refuses it, `out` has only the report, and a `RunError` is raised. `languages`:
    codes of "source" and "target", for a multilingual model.
    """
    if source.suffix == GGUF and source.is_file():
        raise gguf_error(source)
    require_folder(source, out)
    check_folder(source)
    if any((source / name).is_file() for name in (EXCHANGE_REPORT, EXPORT_INFO)):  # one of ours
        warn_without_manifest(source)
    is_ctranslate2 = (source / MODEL_FILE).exists()
    if languages and is_ctranslate2:
        raise RunError(f"{source}: not a multilingual model; leave out the language options")
    model = read_ctranslate2(source) if is_ctranslate2 else read_folder(source, languages)
    check_finite(source, model.weights, NOT_FINITE)
    require_free(out)
    with temporary_folder(out.parent) as place:
        recipe = _write_run(RunFolder(place), model, name or out.resolve().name, source)
        report = ExchangeReport(
            direction="import",
            format=model.format,
            source=str(source),
            files=dict(model.digests),
            licence=read_licence(source),
            notes=model.notes,
            usage=usage_notes(recipe),
            gate=model.check(place),
        )
        write_atomic(place / "card.md", "\n".join(_card(out.name, model, report)).encode())
        publish(place, out, report, "it")
    return ImportedRun(out, report)


def _write_run(folder: RunFolder, model: ForeignModel, name: str, source: Path) -> TaskRecipe:
    raw: dict[str, Any] = {
        **model.recipe,
        "name": name,
        "about": f"Imported: {model.about}.",
        "model": model.settings.model_dump(mode="json"),
    }
    recipe = make_recipe(raw, where=str(source))
    folder.save_recipe(recipe)
    if model.tokenizers is not None:
        save_tokenizers(model.tokenizers, folder.path)
    for file, content in model.run_files.items():
        write_atomic(folder.path / file, content)
    save_weights(folder.weights("model"), model.weights)
    return recipe


def usage_notes(recipe: TaskRecipe) -> tuple[str, ...]:
    """How a run of an imported translator is used: which texts stay as they are, what its search
    costs, and the options that ask for something else.
    """
    if not isinstance(recipe, TranslationRecipe):
        return ()
    notes = []
    if recipe.input.verbatim:
        notes.append(
            "it is given whole texts, unchanged, in float32, as in its source; only blank texts "
            "stay blank. --sentences splits texts and keeps what is no sentence, --precision int8 "
            "is faster"
        )
    reason = native_only_reason(recipe.decoding)
    if reason and not recipe.decoding.sampling and not unsupported_reason(recipe.model):
        notes.append(
            f"its search ({reason}) is the native engine's, which takes several times as long on a "
            "CPU; --engine ctranslate2 is faster, by the nearest search that it has"
        )
    return tuple(notes)


def read_licence(source: Path) -> str | None:
    """The licence that a model card's front matter names, or a reference to a licence file."""
    try:
        card = read_limited(source / "README.md", "config")
    except OSError:
        card = b""
    lines = card.decode("utf-8", "replace").splitlines()
    if lines and lines[0].strip() == "---":
        for line in lines[1:]:
            if line.strip() == "---":
                break
            if line.startswith("license:"):
                return line.removeprefix("license:").strip()[:MAX_LICENCE] or None
    for name in ("LICENSE", "LICENSE.txt", "LICENSE.md"):
        if (source / name).is_file():
            return f"see {name} of the source"
    return None


def _card(name: str, model: ForeignModel, report: ExchangeReport) -> Iterator[str]:
    yield f"# {name}: imported from {model.format}\n"
    yield f"- source: `{report.source}`, {model.about}"
    yield f"- licence: {report.licence or 'the source states none'}"
    yield from (f"- SHA-256 of {file}: `{digest}`" for file, digest in report.files.items())
    yield from (f"- {note}" for note in (*report.notes, *report.usage))
    yield f"\n## Parity\n\n{report.gate.summary()}.\n"
    yield "## Model\n"
    yield "`recipe.yaml` has every setting. The run was not trained here and has no training data."
    yield f"\nregard {report.regard}\n"
