"""The sentences that a model is measured on, where the person gives none."""

from pathlib import Path
from typing import NamedTuple

from regard.cli.console import note
from regard.corpora.readers import read_lines
from regard.errors import SettingsError
from regard.evaluation.metrics import check_lines
from regard.recipes.prepare import load_data
from regard.recipes.run_folder import RunFolder


class HeldOut(NamedTuple):
    """Sentences to translate, and their translations by people."""

    sources: list[str]
    references: list[str]


def read_held_out(model: str, source: str | None, reference: str | None) -> HeldOut:
    """The sentences of the files given, or of the run's test split."""
    if (source is None) != (reference is None):
        raise SettingsError("--source and --reference go together")
    if source is not None and reference is not None:
        held_out = HeldOut(list(read_lines(source)), list(read_lines(reference)))
        check_lines(source=held_out.sources, reference=held_out.references)
        return held_out
    data = load_data(RunFolder(Path(model)))
    split = data.held_out()
    note(f"no --source given: the {split} split of the run, {data.pairs[split]:,} pairs")
    pairs = list(data.read(split))
    return HeldOut([pair.source for pair in pairs], [pair.target for pair in pairs])
