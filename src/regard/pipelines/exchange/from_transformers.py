"""A folder that `transformers` saved -> a model to import."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from regard.errors import RegardError, RunError
from regard.exchange.huggingface.families import find_family
from regard.exchange.huggingface.family import HfFamily, HfModel
from regard.exchange.huggingface.folder import HfFolder
from regard.json_files import dump_json
from regard.pipelines.exchange.foreign_model import ForeignModel
from regard.pipelines.exchange.gate import GateReport, check_import, check_shapes
from regard.pipelines.exchange.tokenization_parity import (
    end_notes,
    load_peer_tokenizer,
    tokenization_difference,
    tokenizer_json,
)
from regard.pipelines.load import load_for_look
from regard.tasks.families.classification import LABELS_FILE


class _Described(NamedTuple):
    """The model of a folder, and how texts are tokenized differently from `transformers`."""

    model: HfModel
    difference: str | None = None
    notes: tuple[str, ...] = ()


def read_folder(source: Path, languages: Mapping[str, str] | None = None) -> ForeignModel:
    """The model of a folder; `languages`: codes of "source" and "target", if it is multilingual."""
    folder = HfFolder(source, languages)
    family = find_family(folder)
    described, difference, notes = _describe(family, folder)
    stored = folder.tensors()
    check_shapes(folder, described, stored)
    tensors = {described.present_name(key): one for key, one in stored.items()}
    try:
        weights = described.table.to_ours(tensors)
    except RunError as error:
        raise RunError(f"{source}: {error}") from None

    def check(place: Path) -> GateReport:
        run = load_for_look(place, device="cpu")
        report = check_import(family, folder, described, tensors, run)
        refused = difference if report.refused is None else report.refused
        return report.model_copy(update={"refused": refused})

    return ForeignModel(
        format=f"transformers, {family.model_type}",
        about=f"{described.architecture} of transformers",
        settings=described.settings,
        weights=weights,
        digests=folder.digests(),
        check=check,
        tokenizers=described.tokenizers,
        recipe=described.recipe,
        run_files=_label_files(described.labels),
        notes=(*described.notes, *notes),
    )


def _describe(family: HfFamily, folder: HfFolder) -> _Described:
    """The model of a folder, with the tokenization of `transformers` if that is installed: its
    tokenizer classes change what `tokenizer.json` says.
    """
    described = family.read(folder)
    if described.tokenizers is None or find_spec("transformers") is None:
        return _Described(described)
    peer = load_peer_tokenizer(folder)
    difference = tokenization_difference(folder, peer, described.tokenizers, family.task)
    content = None if difference is None else tokenizer_json(peer)
    if difference is None or content is None:
        return _Described(
            described, difference, end_notes(peer, described.tokenizers.source, family.task)
        )
    try:
        again = family.read(folder.with_tokenizer(content))
    except RegardError:  # for example, tokens that the model does not have
        return _Described(described, difference)
    assert again.tokenizers is not None
    if (still := tokenization_difference(folder, peer, again.tokenizers, family.task)) is not None:
        return _Described(described, still)
    note = (
        f"texts are tokenized as by {type(peer).__name__} of transformers, which differs from the "
        "files of its tokenizer"
    )
    return _Described(again, None, (note, *end_notes(peer, again.tokenizers.source, family.task)))


def _label_files(labels: tuple[str, ...]) -> dict[str, bytes]:
    """The files of a run that list its labels."""
    return {f"data/{LABELS_FILE}": dump_json(labels, indent=1).encode()} if labels else {}
