"""The sentences that a model is measured on: those of the files given, or of the run."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from regard.cli.display.console import note
from regard.corpora.corpus import Pair, SplitName
from regard.corpora.readers.pair_files import read_lines
from regard.errors import SettingsError
from regard.evaluation.metrics import check_lines
from regard.recipes.prepared_data import PreparedData, load_data
from regard.recipes.run_folder import RunFolder


class EvalData(NamedTuple):
    """Sentences to translate, and their references."""

    sources: list[str]
    references: list[str]

    def first(self, limit: int | None) -> "EvalData":
        """The first sentences only; None: all."""
        return EvalData(self.sources[:limit], self.references[:limit])


def read_eval_data(model: str, source: str | None, reference: str | None) -> EvalData:
    """The sentences of the files given, or of the run's test split."""
    if (source is None) != (reference is None):
        raise SettingsError("--source and --reference go together")
    if source is not None and reference is not None:
        held_out = EvalData(list(read_lines(source)), list(read_lines(reference)))
        check_lines(source=held_out.sources, reference=held_out.references)
        return held_out
    data = load_data(RunFolder(Path(model)))
    pairs = list(read_run_split(data, data.held_out()))
    return EvalData([pair.source for pair in pairs], [pair.target for pair in pairs])


def read_sources(model: str, source: str | None) -> list[str]:
    """The sentences of a file, or the sources of the run's test split."""
    return read_eval_data(model, None, None).sources if source is None else list(read_lines(source))


def read_run_split(data: PreparedData, split: SplitName) -> Iterator[Pair]:
    """The pairs of a split of the run, and a note that it is these."""
    note(f"no --source given: the {split} split of the run, {data.pairs[split]:,} pairs")
    return data.read(split)
