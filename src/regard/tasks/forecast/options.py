"""The options and the lines of `regard forecast`."""

from collections.abc import Iterator, Sequence
from os.path import isfile
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import PositiveInt

from regard.corpora.readers.pair_files import STDIN, read_lines
from regard.errors import RegardError
from regard.tasks.families.options import Positional, Reply, UseOptions, Written

if TYPE_CHECKING:  # it imports torch
    from regard.tasks.forecast.pipeline import Forecaster


def is_table(texts: Sequence[str]) -> bool:
    """Whether the texts are the name of a table, rather than numbers."""
    return len(texts) == 1 and texts[0].lower().removesuffix(".gz").endswith((".csv", ".tsv"))


class ForecastOptions(UseOptions):
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

    negative_numbers = True

    series: Annotated[tuple[str, ...], Positional("[NUMBER…|FILE]")] = ()
    """The numbers of a series; or a file: a .csv or .tsv with the columns of the run and a row for
    each time step, or any other file with a series on each line; - is stdin."""
    steps: Annotated[PositiveInt, Written(metavar="N")] = 1
    """How many time steps to forecast."""

    def replies(self, pipeline: "Forecaster") -> Iterator[Reply]:
        given = self.series or (STDIN,)
        is_file = given == (STDIN,) or (len(given) == 1 and isfile(given[0]))
        if is_file and not is_table(given):
            for number, line in enumerate(read_lines(given[0], limit="examples"), 1):
                yield self._reply(pipeline, line, number)
        else:
            answer = pipeline(pipeline.read(given), steps=self.steps)
            yield Reply([str(answer)], answer.to_json, answer.notes)

    def _reply(self, forecaster: "Forecaster", line: str, number: int) -> Reply:
        """The forecast of a line; a blank line if it is not a series."""
        document: dict[str, Any] = {"line": number}
        if not line.strip():
            return Reply([""], lambda: {**document, "notes": []})
        try:
            answer = forecaster(forecaster.parse(line), steps=self.steps)
        except RegardError as caught:
            error = f"line {number}: {caught}"
            return Reply([""], lambda: {**document, "error": error}, error=error)
        notes = [f"line {number}: {message}" for message in answer.notes]
        return Reply([str(answer)], lambda: document | answer.to_json(), notes)
