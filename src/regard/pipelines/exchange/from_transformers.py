"""A folder that `transformers` saved -> a model to import."""

from collections.abc import Mapping
from pathlib import Path

from regard.exchange.huggingface.families import find_family
from regard.exchange.huggingface.folder import HfFolder
from regard.json_files import dump_json
from regard.pipelines.exchange.foreign_model import ForeignModel, ImportFormat
from regard.pipelines.exchange.gate import GateReport, check_import, check_shapes
from regard.pipelines.load import load_for_look
from regard.tasks.classification import LABELS_FILE


def read_folder(source: Path, languages: Mapping[str, str] | None = None) -> ForeignModel:
    """The model of a folder; `languages`: codes of "source" and "target", if it has many."""
    folder = HfFolder(source, languages)
    family = find_family(folder)
    described = family.read(folder)
    stored = folder.tensors()
    check_shapes(folder, described, stored)
    tensors = {described.present_name(key): one for key, one in stored.items()}

    def check(place: Path) -> GateReport:
        run = load_for_look(place, device="cpu")
        return check_import(family, folder, described, tensors, run)

    return ForeignModel(
        format=f"transformers, {family.model_type}",
        about=f"{described.architecture} of transformers",
        settings=described.settings,
        weights=described.table.to_ours(tensors),
        digests=folder.digests(),
        check=check,
        tokenizers=described.tokenizers,
        recipe=described.recipe,
        run_files=_label_files(described.labels),
    )


def _label_files(labels: tuple[str, ...]) -> dict[str, bytes]:
    """The files of a run that hold its labels."""
    return {f"data/{LABELS_FILE}": dump_json(labels, indent=1).encode()} if labels else {}


TRANSFORMERS = ImportFormat(lambda folder: (folder / "config.json").exists(), read_folder)
