"""`regard bench`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import options
from regard.cli.console import note, out, print_json
from regard.cli.held_out import read_held_out
from regard.cli.tables import plain_table
from regard.comparison.machine import today
from regard.corpora.readers import read_lines
from regard.errors import RunError, SettingsError, StorageError
from regard.serving.measured import FILE, Measured, remember, this_machine
from regard.serving.measuring import Trial, Way, find_ways, measure_way

app = typer.Typer()


@app.command()
def command(
    model: options.Model,
    source: options.HeldOutSource = None,
    sentences: Annotated[
        int, typer.Option(min=1, metavar="N", help="Measure on the first N sentences.")
    ] = 100,
    beam: options.Beam = None,
    keep: Annotated[
        bool, typer.Option(help="Let later translations use the fastest way that was found.")
    ] = True,
    json: options.Json = False,
) -> None:
    """Measure how fast a model translates here, and which engine is the fastest.

    Each engine and precision translates the same sentences, as a stream and one at a time, in a
    process of its own; where there is a GPU, there too. The CPU's fastest for a stream, with its
    batch size, is kept in the run's folder, and from then on `regard translate` uses it on this
    machine; of the native engine's precisions that is float32 only, as no gate holds the others
    equal to it. For a comparison with other toolkits see docs/performance.md.

    Examples:

        regard bench runs/travel
        regard bench runs/mine --source letters.en --beam 1 --no-keep
    """
    lines = read_held_out(model, None, None).sources if source is None else list(read_lines(source))
    texts = lines[:sentences]
    if not any(text.strip() for text in texts):
        raise SettingsError("all sentences are blank: there is nothing to measure")
    trials: dict[Way, Trial] = {}
    unsure: list[Way] = []
    for way in find_ways():
        note(f"measuring {way}")
        found = measure_way(Path(model), way, texts, beam)
        if isinstance(found, Trial):
            trials[way] = found
            continue
        note(f"without {way}: {found.why}")
        if found.passing and way.to_be_kept:
            unsure.append(way)
    if not trials:
        raise RunError(f"{model}: no engine can translate with it here")
    best = max(trials, key=lambda way: trials[way].sentences)
    if keep:
        _keep(Path(model), trials, unsure)
    if json:
        print_json(_plain(trials, best))
    else:
        _print(trials, best, len(texts))


def _keep(run: Path, trials: dict[Way, Trial], unsure: Sequence[Way]) -> None:
    """Keep the fastest way in the run's folder, of those that no person has to ask for.

    Those of which it is `unsure` how fast they are might be faster.
    """
    if unsure:
        return note(
            f"nothing is kept: {' and '.join(map(str, unsure))} could not be measured this time; "
            "measure again when what is in the way is gone"
        )
    usable = [trial for way, trial in trials.items() if way.to_be_kept]
    if not usable:
        return note(
            "nothing is kept: no way on a CPU that was measured is the model's own or held equal "
            "to it by the gate"
        )
    choice = max(usable, key=lambda trial: trial.sentences).choice
    try:
        remember(run, Measured(machine=this_machine(), date=today(), fastest=choice))
    except StorageError as error:
        return note(f"what was measured cannot be kept: {error}")
    return note(f"kept in {run / FILE}: {choice.engine} {choice.precision}")


def _agreement(trials: dict[Way, Trial], trial: Trial) -> float:
    """The share of sentences to which it says what the most exact way says, the last one."""
    exact = list(trials.values())[-1].texts
    return sum(a == b for a, b in zip(trial.texts, exact, strict=True)) / len(exact)


def _print(trials: dict[Way, Trial], best: Way, count: int) -> None:
    """A line for each way, and what to make of it."""
    numbers = ("sentences/s", "tokens/s", "one, ms", "load, s", "peak MB", "same", "batch")
    title = f"{count} sentences, {this_machine()}"
    table = plain_table("engine", *numbers, title=title, right=numbers, gap=1)
    for way, trial in trials.items():
        table.add_row(
            f"[bold]{way}[/bold]" if way == best else str(way),
            f"{trial.sentences:,.1f}",
            f"{trial.tokens:,.0f}",
            f"{trial.milliseconds:.1f}",
            f"{trial.loading:.2f}",
            f"{trial.megabytes:,.0f}",
            f"{_agreement(trials, trial):.0%}",
            f"{trial.choice.budget:,}",
        )
    out.print(table)
    alone = min(trials, key=lambda way: trials[way].milliseconds)
    exact = list(trials)[-1]
    out.print(f"fastest for a stream: {best}; one by one: {alone}")
    out.print(f"[dim]same: sentences to which it says, letter for letter, what {exact} says[/dim]")


def _plain(trials: dict[Way, Trial], best: Way) -> dict[str, Any]:
    return {
        "machine": this_machine(),
        "fastest": {**trials[best].choice.model_dump(), "device": best.device},
        "ways": [
            {
                **trial.choice.model_dump(),
                "device": way.device,
                "sentences_per_second": trial.sentences,
                "tokens_per_second": trial.tokens,
                "milliseconds": trial.milliseconds,
                "loading_seconds": trial.loading,
                "peak_megabytes": trial.megabytes,
                "agreement": _agreement(trials, trial),
            }
            for way, trial in trials.items()
        ],
    }
