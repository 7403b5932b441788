"""Options of the commands that score; apart from the others, as scorers take long to import."""

from typing import Annotated

import typer

from regard.evaluation.metrics import BleuTokenizer

Tokenize = Annotated[
    BleuTokenizer, typer.Option(help="How BLEU cuts lines into words; none: at spaces.")
]
