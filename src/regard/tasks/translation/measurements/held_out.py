"""The pairs and the tokenizer to score a model with: those that are given, or the run's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from regard.corpora.corpus import UNDETERMINED
from regard.corpora.readers.pair_files import read_lines
from regard.errors import RunError, SettingsError
from regard.evaluation.bleu_tokenizer import BleuTokenizer, TokenizerChoice, choose_tokenizer
from regard.evaluation.metrics import check_available, check_lines
from regard.recipes.run_folder import RunFolder, load_data
from regard.tasks.contracts import Notify
from regard.tasks.translation.needed import require_text_task


class EvalData(NamedTuple):
    sources: list[str]
    references: list[str]


def read_eval_data(
    model: str, source: str | None, reference: str | None, tell: Notify, limit: int | None = None
) -> EvalData:
    """The first sentences of the files given, or of the run's test split; by default all."""
    if (source is None) != (reference is None):
        raise SettingsError("--source and --reference must be given together")
    if source is not None and reference is not None:
        sources, references = (
            list(read_lines(source, limit="examples")),
            list(read_lines(reference, limit="examples")),
        )
        check_lines(source=sources, reference=references)
        return EvalData(sources[:limit], references[:limit])
    data = load_data(RunFolder(Path(model)))
    pairs = list(data.read_by_default(data.held_out(), tell))[:limit]
    return EvalData([pair.source for pair in pairs], [pair.target for pair in pairs])


def read_sources(model: str, source: str | None, tell: Notify) -> list[str]:
    """The sentences of a file, or the sources of the run's test split."""
    return (
        read_eval_data(model, None, None, tell).sources
        if source is None
        else list(read_lines(source, limit="examples"))
    )


def run_tokenizer(
    model: str, tokenize: TokenizerChoice, references: Sequence[str], tell: Notify
) -> BleuTokenizer:
    """The tokenizer to score a run with: the one given, the run's own, or its language's."""
    folder = RunFolder(Path(model))
    if tokenize == "auto":
        tokenize = require_text_task(folder.load_recipe(), model).evaluation.tokenize
    try:
        language = load_data(folder).languages[1] if tokenize == "auto" else UNDETERMINED
    except RunError:  # a run translates without its data
        language = UNDETERMINED
    return resolve_tokenizer(tokenize, language, references, tell)


def resolve_tokenizer(
    tokenize: TokenizerChoice, language: str, references: Sequence[str], tell: Notify
) -> BleuTokenizer:
    """The tokenizer given, or for `auto` that of the language or the references' script."""
    if tokenize != "auto":
        check_available(tokenize)  # raises an error before anything is translated
        return tokenize
    name, why = choose_tokenizer(language, references)
    if why:
        tell(f"BLEU and TER are counted with tok:{name}, chosen by {why}")
    return name
