"""`regard complete`: a text continued by a language model."""

import sys

from typer import Argument, Context

from regard.cli.display.console import note, to_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import check_n_best, flag, option, sampling_given
from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.decoding.settings import MAX_BEAM, DecodingSettings, search_settings
from regard.errors import SettingsError
from regard.iterate import chunked
from regard.pipelines.open_pipeline import open_pipeline
from regard.tasks.language.completion import Completion
from regard.tasks.language.pipeline import DEFAULT_MAX_TOKENS, Completer

PROMPTS_AT_ONCE = 1024  # many, to fill batches; few, to print early


def command(
    context: Context,
    model: shared_options.Model,
    prompts: list[str] | None = Argument(
        None,
        metavar="[PROMPT…]",
        help="Texts to continue, which may be empty; without any, the lines of the standard input.",
    ),
    max_tokens: int = option(
        "The most tokens of a continuation.", default=DEFAULT_MAX_TOKENS, min=1, metavar="N"
    ),
    n_best: int | None = option("Continuations of each prompt.", min=1, metavar="N"),
    temperature: shared_options.Temperature = None,
    top_k: shared_options.TopK = None,
    top_p: shared_options.TopP = None,
    seed: shared_options.Seed = None,
    beam: int | None = option(
        "Search for the likeliest continuation with this many hypotheses instead of sampling; 1 is "
        "greedy search.",
        min=1,
        max=MAX_BEAM,
    ),
    stream: bool = flag("--stream", "Print the text of one prompt while it is generated."),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Each continuation is printed with its prompt. Many prompts of any lengths are continued
    together. The same seed gives the same texts.

    Examples:

        regard complete runs/shakespeare "ROMEO:"
        regard complete runs/shakespeare "ROMEO:" --temperature 0.7 --top-k 20 --seed 3 --stream
        regard complete runs/shakespeare "To be" --beam 5 --max-tokens 50 --json
        regard complete runs/shakespeare < prompts.txt
    """
    check_n_best(n_best, beam, sampled=beam is None)
    completer = open_pipeline(
        model, device=device, weights=weights, adapter=adapter, verb="complete"
    )
    sampling = sampling_given(context)
    if beam is not None and sampling:
        raise SettingsError(
            f"--beam searches and does not sample: drop --{next(iter(sampling)).replace('_', '-')}"
        )
    settings = _settings(completer, beam, n_best, sampling)
    texts = prompts or read_lines(STDIN)
    if stream:
        _stream(completer, list(texts), settings, max_tokens, as_json=json)
        return
    first = 0
    for some in chunked(texts, PROMPTS_AT_ONCE):
        found = completer.complete(some, settings, max_tokens=max_tokens, first=first)
        for completion in found:
            _print(completion, as_json=json)
        first += len(some)
        sys.stdout.flush()


def _settings(
    completer: Completer, beam: int | None, n_best: int | None, sampling: dict[str, float]
) -> DecodingSettings:
    """The run's settings with the given options."""
    own = completer.settings
    if beam is None and own.sampling is not None:
        sampling = own.sampling.model_dump() | sampling
    drawn = sampling if beam is None and sampling else None
    return search_settings(own, beam=beam, n_best=n_best, sampling=drawn)


def _stream(
    completer: Completer,
    texts: list[str],
    settings: DecodingSettings,
    max_tokens: int,
    *,
    as_json: bool,
) -> None:
    """Print one prompt and its continuation while it is generated."""
    if len(texts) != 1 or settings.n_best > 1 or settings.sampling is None or as_json:
        raise SettingsError(
            "--stream prints one sampled text for one prompt: drop it, or --beam, "
            "--n-best, --json and further prompts"
        )
    shown = ""

    def on_text(_: int, text: str) -> None:
        nonlocal shown
        if not text.endswith("\ufffd"):  # a character whose bytes have not all come
            sys.stdout.write(text[len(shown) :])
            sys.stdout.flush()
            shown = text

    sys.stdout.write(texts[0])
    found = completer.complete(texts, settings, max_tokens=max_tokens, on_text=on_text)[0]
    sys.stdout.write(found.continuations[0].text[len(shown) :] + "\n")
    for message in found.notes:
        note(message)


def _print(completion: Completion, *, as_json: bool) -> None:
    if as_json:
        print(to_json(completion.to_json()))
        return
    for one in completion.continuations:
        print(completion.prompt + one.text)
    for message in completion.notes:
        note(message)
