"""Options of the commands that score; in their own module, as scorers are slow to import."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.display.console import note
from regard.corpora.corpus import UNDETERMINED
from regard.errors import RunError
from regard.evaluation.bleu_tokenizer import BleuTokenizer, TokenizerChoice, choose_tokenizer
from regard.evaluation.metrics import check_available
from regard.recipes.prepared_data import load_data
from regard.recipes.run_folder import RunFolder

Tokenize = Annotated[
    TokenizerChoice,
    typer.Option(
        help="How BLEU and TER cut lines into words, by sacreBLEU's names; none: at spaces; auto: "
        "as during training, or by the target language."
    ),
]


def run_tokenizer(
    model: str, tokenize: TokenizerChoice, references: Sequence[str]
) -> BleuTokenizer:
    """The tokenizer to score a run with: the one given, the run's own, or its language's."""
    folder = RunFolder(Path(model))
    if tokenize == "auto":
        tokenize = folder.load_recipe().evaluation.tokenize
    try:
        language = load_data(folder).languages[1] if tokenize == "auto" else UNDETERMINED
    except RunError:  # a run translates without its data
        language = UNDETERMINED
    return resolve_tokenizer(tokenize, language, references)


def resolve_tokenizer(
    tokenize: TokenizerChoice, language: str, references: Sequence[str]
) -> BleuTokenizer:
    """The tokenizer given, or for `auto` that of the language or the references' script."""
    if tokenize != "auto":
        check_available(tokenize)  # raises an error before anything is translated
        return tokenize
    name, why = choose_tokenizer(language, references)
    if why:
        note(f"BLEU and TER are counted with tok:{name}, chosen by {why}")
    return name
