"""`regard fill`: masked places of texts filled by a masked language model."""

from typer import Argument

from regard.cli.display.console import note, to_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import option
from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.pipelines.open_pipeline import open_pipeline
from regard.settings import abbreviate, escape_control
from regard.tasks.masked.filling import Filling
from regard.tasks.masked.pipeline import DEFAULT_TOP


def command(
    model: shared_options.Model,
    texts: list[str] | None = Argument(
        None,
        metavar="[TEXT…]",
        help="Texts with [MASK], or the model's own mask token such as `<mask>`, in place of "
        "each token to fill; without any, the lines of the standard input. A pair of texts has ||| "
        "between them.",
    ),
    top: int = option(
        "The likeliest tokens of each masked place.", default=DEFAULT_TOP, min=1, metavar="N"
    ),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
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
    filler = open_pipeline(model, device=device, weights=weights, adapter=adapter, verb="fill")
    given = texts if texts else list(read_lines(STDIN, limit="examples"))
    for filling in filler.fill(given, top=top):
        if json:
            print(to_json(filling.to_json()))
        else:
            _print(filling)
        for message in filling.notes:
            note(f"{abbreviate(filling.masked or repr(''))}: {message}")


def _print(filling: Filling) -> None:
    for number, mask in enumerate(filling.masks, start=1):
        place = f"{number}\t" if len(filling.masks) > 1 else ""
        for token, text in zip(mask.tokens, mask.texts, strict=True):
            line = escape_control(text.replace("\n", "↵"))
            print(f"{place}{token.probability:.4f}\t{token.name}\t{line}")
    print()
