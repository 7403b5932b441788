"""The options and the lines of `regard fill`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import PositiveInt

from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.settings import abbreviate, escape_control
from regard.tasks.families.options import Positional, Reply, UseOptions, Written

if TYPE_CHECKING:  # they import torch
    from regard.tasks.masked.filling import Filling
    from regard.tasks.masked.pipeline import Filler

DEFAULT_TOP = 5  # answers for each masked place


class FillOptions(UseOptions):
    """Each answer is a line: its probability, the token, and the text with it, separated by tabs;
    if a text has several masked places, the number of the place comes first. A blank line ends each
    text. Places are filled independently. With --json, each text gives one line. Every text has an
    answer; it is empty, with a note on stderr, if the text is empty or has no masked place.

    Examples:

        regard fill runs/wikitext2-bert "Paris is the [MASK] of France."
        regard fill runs/wikitext2-bert "The [MASK] was released in [MASK]." --top 3
        regard fill runs/roberta "Paris is the <mask> of France."
        regard fill runs/roberta < lines.txt --json
    """

    texts: Annotated[tuple[str, ...], Positional("[TEXT…]")] = ()
    """Texts with [MASK], or the model's own mask token such as `<mask>`, in place of each token to
    fill; without any, the lines of the standard input. A pair of texts has ||| between them."""
    top: Annotated[PositiveInt, Written(metavar="N")] = DEFAULT_TOP
    """The likeliest tokens of each masked place."""

    def replies(self, pipeline: "Filler") -> Iterator[Reply]:
        texts = self.texts or list(read_lines(STDIN, limit="examples"))
        for filling in pipeline.fill(texts, top=self.top):
            name = abbreviate(filling.masked or repr(""))
            notes = [f"{name}: {message}" for message in filling.notes]
            yield Reply(_lines(filling), filling.to_json, notes)


def _lines(filling: "Filling") -> Iterator[str]:
    for number, mask in enumerate(filling.masks, start=1):
        place = f"{number}\t" if len(filling.masks) > 1 else ""
        for token, text in zip(mask.tokens, mask.texts, strict=True):
            line = escape_control(text.replace("\n", "↵"))
            yield f"{place}{token.probability:.4f}\t{token.name}\t{line}"
    yield ""
