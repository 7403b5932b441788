"""`regard embed`: vectors of words in their context, by a bidirectional language model."""

from typer import Argument

from regard.cli.display.console import to_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import option
from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.pipelines.open_pipeline import open_pipeline


def command(
    model: shared_options.Model,
    texts: list[str] | None = Argument(
        None, metavar="[TEXT…]", help="Texts; without any, the lines of the standard input."
    ),
    layer: int | None = option(
        "Vectors of one layer; layer 0 has no context. Without it all layers are mixed.",
        min=0,
        metavar="N",
    ),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Each word gives a line: the word, a tab, and the numbers of its vector; a blank line ends
    each text. With --json, each text gives one line. Words are read letter by letter and may
    be new to the model.

    Examples:

        regard embed runs/elmo "the bank of the river" "the bank lent money" --json
        regard embed runs/elmo --layer 0 < sentences.txt > vectors.tsv
    """
    embedder = open_pipeline(model, device=device, weights=weights, adapter=adapter, verb="embed")
    given = texts if texts else list(read_lines(STDIN, limit="examples"))
    for found in embedder(given, layer=layer):
        if json:
            print(to_json(found.to_json()))
            continue
        for word, vector in zip(found.words, found.vectors.tolist(), strict=True):
            print(f"{word}\t{' '.join(f'{number:.6g}' for number in vector)}")
        print()
