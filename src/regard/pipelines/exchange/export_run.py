"""A run -> a folder that `transformers` loads, and that gives the same outputs there."""

from importlib import import_module
from pathlib import Path
from typing import Any

import safetensors.torch

from regard.atomic_io import temporary_folder, write_atomic
from regard.errors import RunError
from regard.exchange.huggingface.families import FAMILIES
from regard.exchange.huggingface.family import HfFamily, HfModel, imported_vocabulary
from regard.exchange.huggingface.folder import CONFIG, WEIGHTS, HfFolder
from regard.json_files import dump_json, read_json
from regard.manifest import sha256_of_file
from regard.pipelines.exchange.exchange_report import (
    REPORT,
    ExchangeReport,
    ExportedFolder,
    publish,
    require_free,
)
from regard.pipelines.exchange.gate import (
    compare,
    quiet,
    reference_name,
    require_transformers,
    store_answers,
)
from regard.pipelines.exchange.generation_config import GENERATION_CONFIG, generation_config
from regard.pipelines.exchange.tokenization_parity import (
    load_peer_tokenizer,
    tokenization_difference,
)
from regard.pipelines.load import load_for_look
from regard.recipes.run_folder import RunFolder, find_weights
from regard.settings import abbreviate
from regard.tasks.contracts import TaskRecipe
from regard.tasks.families.classification import load_labels
from regard.tasks.translation.needed import require_text_task
from regard.text.build import load_tokenizers
from regard.training.checkpoints import load_weights


def export_folder(path: Path, out: Path, *, weights: str = "model") -> ExportedFolder:
    """Export a run into the folder `out`.

    If the gate refuses it, `out` has only the report, and a `RunError` is raised.
    """
    require_transformers(str(path), "exported")
    run, recipe = RunFolder(path), RunFolder(path).load_recipe()
    file = find_weights(run, weights)
    family, described = find_writer(recipe, path)
    tokenizers = described.tokenizers
    tensors = described.table.to_theirs(load_weights(file))
    require_free(out)
    with temporary_folder(out.parent) as place:
        write_atomic(place / CONFIG, f"{dump_json(described.config, indent=2)}\n".encode())
        write_atomic(place / WEIGHTS, safetensors.torch.save(tensors, {"format": "pt"}))
        for name, content in described.files.items():
            write_atomic(place / name, content)
        if family.searches and tokenizers is not None:
            search = require_text_task(recipe, str(path)).decoding
            target, opening = imported_vocabulary(tokenizers), tokenizers.target.opening
            write_atomic(place / GENERATION_CONFIG, generation_config(search, target, opening))
        pipeline = load_for_look(path, device="cpu", weights=weights)
        peer = _load_peer(place, described)
        gate = compare(
            family,
            peer,
            pipeline.model,
            tokenizers,
            reference_name(),
            pipeline.settings if family.searches else None,
            float64_tolerance=described.float64_tolerance,
        )
        if gate.refused is None and tokenizers is not None:
            folder = HfFolder(place)
            theirs = load_peer_tokenizer(folder)
            found = tokenization_difference(folder, theirs, tokenizers, recipe.task)
            gate = gate.model_copy(update={"refused": found})
        report = ExchangeReport(
            direction="export",
            format=f"transformers, {family.model_type}",
            source=str(path),
            files={file.name: sha256_of_file(file)},
            licence=_licence(path),
            gate=gate,
        )
        if gate.refused is None:
            store_answers(place, family, peer.float(), pipeline.model, tokenizers)
        publish(place, out, report, "transformers")
    return ExportedFolder(out, report)


def find_writer(recipe: TaskRecipe, path: Path) -> tuple[HfFamily, HfModel]:
    """The family that a run is exported as, and its model there; an error if none fits."""
    kind = str(recipe.model.family)
    reasons: dict[str, list[str]] = {}  # why one does not fit -> the families of which that is said
    for family in FAMILIES.values():
        if family.task != recipe.task or kind not in family.model_families:
            continue
        try:
            tokenizers = [load_tokenizers(path)] if family.reads_text else []
            labels = [load_labels(path)] if family.has_labels else []
            return family, family.write(recipe.model, *tokenizers, *labels)
        except RunError as error:
            reasons.setdefault(str(error), []).append(family.model_type)
    if not reasons:
        raise RunError(
            f"{path}: transformers has no model like the family {kind} for {recipe.task}"
        )
    lines = (f"\n  {', '.join(names)}: {reason}" for reason, names in reasons.items())
    raise RunError(f"{path}: cannot be exported as any family of transformers:{''.join(lines)}")


def _load_peer(folder: Path, described: HfModel) -> Any:
    """The model that the loader of `transformers` reads from a folder."""
    transformers = import_module("transformers")
    with quiet(transformers):
        try:
            kind = getattr(transformers, described.architecture)
            return kind.from_pretrained(
                str(folder), local_files_only=True, dtype=import_module("torch").float32
            ).eval()
        except Exception as error:  # its errors have no common type
            raise RunError(
                f"transformers {transformers.__version__} cannot load the export: "
                f"{abbreviate(str(error))}"
            ) from None


def _licence(path: Path) -> str | None:
    """The licence of the model that a run was imported from."""
    try:
        return read_json(path / REPORT, ExchangeReport).licence
    except (OSError, ValueError):
        return None
