"""`regard caption`: descriptions of pictures."""

from typer import Argument, Context, Exit

from regard.cli.display.console import note, print_error, to_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import (
    SAMPLING_OPTIONS,
    OptionRule,
    check_n_best,
    check_options,
    flag,
    option,
    sampling_given,
)
from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.decoding.settings import search_settings
from regard.images.picture_files import find_pictures
from regard.pipelines.open_pipeline import open_pipeline
from regard.settings import escape_control
from regard.tasks.captions.pipeline import CaptionAnswer

OPTION_RULES = (OptionRule(SAMPLING_OPTIONS, needs="sample"),)


def command(
    context: Context,
    model: shared_options.Model,
    pictures: list[str] = Argument(
        None, metavar="PICTURE…", help="Picture files or folders; - reads a list from stdin."
    ),
    beam: shared_options.Beam = None,
    n_best: int | None = option("Print the N best, each on its own line.", min=1, metavar="N"),
    length_penalty: float | None = option("More favours longer captions.", min=0, max=5),
    sample: bool = flag("--sample", "Draw captions at random instead of searching."),
    temperature: shared_options.Temperature = None,
    top_k: shared_options.TopK = None,
    top_p: shared_options.TopP = None,
    seed: shared_options.Seed = None,
    scores: bool = flag("--scores", "Put each caption's score before it."),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Every picture gives one line, in order: only the caption if one picture was named, otherwise
    the name, a tab and the caption. A folder stands for all pictures in it and its
    subfolders. A picture that cannot be read, or a blank line of a list, gives an empty caption and
    an error on stderr; the others are still captioned, and the exit code is 1.

    Pictures may be JPEG, PNG, WebP, GIF, BMP, TIFF, PPM or AVIF; the model sees the square in the
    middle.

    Examples:

        regard caption runs/flickr8k photo.jpg
        regard caption runs/flickr8k holidays/ --json > captions.jsonl
        ls *.png | regard caption runs/flickr8k --beam 3 --n-best 3 --scores
    """
    check_options(context, OPTION_RULES)
    check_n_best(n_best, beam, sampled=sample)
    captioner = open_pipeline(
        model, device=device, weights=weights, adapter=adapter, verb="caption"
    )
    settings = search_settings(
        captioner.settings,
        beam=beam,
        n_best=n_best,
        length_penalty=length_penalty,
        sampling=sampling_given(context) if sample else None,
    )
    listed = [
        name
        for one in pictures or [STDIN]
        for name in (read_lines(STDIN, limit="examples") if one == STDIN else [one])
    ]
    found = list(find_pictures(listed))
    failed = 0
    for answer in captioner.stream(found, settings):
        failed += answer.error is not None
        _print(answer, as_json=json, named=len(found) > 1, n_best=n_best, scores=scores)
    if failed:
        raise Exit(1)


def _print(
    answer: CaptionAnswer, *, as_json: bool, named: bool, n_best: int | None, scores: bool
) -> None:
    if answer.error is not None:
        print_error(answer.error)
    for message in answer.notes:
        note(f"{answer.picture}: {message}")
    if as_json:
        print(to_json(answer.to_json()))
        return
    name = [escape_control(answer.picture)] if named else []
    if answer.error is not None:
        print(*name, "", sep="\t")
    for rank, one in enumerate(answer.candidates, 1):
        number = [str(rank)] if n_best is not None else []
        score = [f"{one.score:.4f}"] if scores else []
        print(*name, *number, *score, one.text, sep="\t")
