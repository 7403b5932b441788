"""The options and the lines of `regard embed`."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import NonNegativeInt

from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.tasks.families.options import Positional, Reply, UseOptions, Written

if TYPE_CHECKING:  # it imports torch
    from regard.tasks.embedding.pipeline import Embedder, Embedding


class EmbedOptions(UseOptions):
    """Each word gives a line: the word, a tab, and the numbers of its vector; a blank line ends
    each text. With --json, each text gives one line. Words are read letter by letter and may
    be new to the model.

    Examples:

        regard embed runs/elmo "the bank of the river" "the bank lent money" --json
        regard embed runs/elmo --layer 0 < sentences.txt > vectors.tsv
    """

    texts: Annotated[tuple[str, ...], Positional("[TEXT…]")] = ()
    """Texts; without any, the lines of the standard input."""
    layer: Annotated[NonNegativeInt | None, Written(metavar="N")] = None
    """Vectors of one layer; layer 0 has no context. Without it all layers are mixed."""

    def replies(self, pipeline: "Embedder") -> Iterator[Reply]:
        texts = self.texts or list(read_lines(STDIN, limit="examples"))
        for embedding in pipeline(texts, layer=self.layer):
            yield Reply(_lines(embedding), embedding.to_json)


def _lines(embedding: "Embedding") -> Iterator[str]:
    for word, vector in zip(embedding.words, embedding.vectors.tolist(), strict=True):
        yield f"{word}\t{' '.join(f'{number:.6g}' for number in vector)}"
    yield ""
