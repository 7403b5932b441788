"""`regard forecast`: the numbers that follow a series."""

from collections.abc import Sequence
from os.path import isfile

from typer import Argument, Exit

from regard.cli.display.console import note, print_error, to_json
from regard.cli.options import shared_options
from regard.cli.options.shared_options import option
from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.errors import RegardError
from regard.pipelines.open_pipeline import open_pipeline
from regard.tasks.forecast.pipeline import Forecaster, SeriesAnswer, is_table

CONTEXT_SETTINGS = {"ignore_unknown_options": True}  # -1 is a number, not an option


def command(
    model: shared_options.Model,
    series: list[str] | None = Argument(
        None,
        metavar="[NUMBER…|FILE]",
        help="The numbers of a series; or a file: a .csv or .tsv with the columns of the run and a "
        "row for each time step, or any other file with a series on each line; - is stdin.",
    ),
    steps: int = option("How many time steps to forecast.", default=1, min=1, metavar="N"),
    weights: shared_options.Weights = "model",
    adapter: shared_options.Adapter = None,
    device: shared_options.Device = "auto",
    json: shared_options.Json = False,
) -> None:
    """Every series gives one line of forecasts, in order. Each forecast after the first is made
    from those before it. A series may be shorter than the model's window; if it is longer, its end
    is used. Numbers of a time step with several columns are joined by commas. A line that is not a
    series gives a blank line and an error on stderr, and the exit code is 1.

    Examples:

        regard forecast runs/fibonacci 1 1 2 3 5 8
        regard forecast runs/fibonacci 1 1 2 3 5 8 --steps 5 --json
        echo "21 34 55" | regard forecast runs/fibonacci
        regard forecast runs/weather days.csv --steps 7
    """
    forecaster = open_pipeline(
        model, device=device, weights=weights, adapter=adapter, verb="forecast"
    )
    given = series or [STDIN]
    if is_table(given) or not _is_file(given):
        answer = forecaster(forecaster.read(given), steps=steps)
        for message in answer.notes:
            note(message)
        print(to_json(answer.to_json()) if json else answer)
        return
    failed = 0
    for number, line in enumerate(read_lines(given[0], limit="examples"), 1):
        failed += not _forecast_line(forecaster, line, number, steps=steps, as_json=json)
    if failed:
        raise Exit(1)


def _is_file(given: Sequence[str]) -> bool:
    """Whether the arguments name a file, rather than give numbers."""
    return given == [STDIN] or (len(given) == 1 and isfile(given[0]))


def _forecast_line(
    forecaster: Forecaster, line: str, number: int, *, steps: int, as_json: bool
) -> bool:
    """Print the forecast of a line, or a blank line; False if the line is not a series."""
    notes, error = tuple[str, ...](), None
    answer: SeriesAnswer | None = None
    if line.strip():
        try:
            answer = forecaster(forecaster.parse(line), steps=steps)
            notes = answer.notes
        except RegardError as caught:
            error = f"line {number}: {caught}"
            print_error(error)
    for message in notes:
        note(f"line {number}: {message}")
    if as_json:
        failure = {"error": error} if error else {"notes": list(notes)}
        print(to_json({"line": number, **(answer.to_json() if answer else failure)}))
    else:
        print(answer or "")
    return error is None
