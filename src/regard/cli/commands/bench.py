"""`regard bench`: how fast a model translates on this machine, and with which engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.cli.display.console import note, out, print_json
from regard.cli.display.tables import plain_table
from regard.cli.options import shared_options
from regard.cli.options.shared_options import option
from regard.comparison.measurements import today
from regard.engines.engine_tuning import (
    MEASURED_FILE,
    EngineMeasurement,
    save_tuned_engine,
    this_machine,
)
from regard.errors import RunError, SettingsError, StorageError
from regard.tasks.translation.measurements.engine_benchmark import (
    EngineVariant,
    VariantTiming,
    list_variants,
    time_variant,
)
from regard.tasks.translation.measurements.evaluation import read_sources


def command(
    model: shared_options.Model,
    source: shared_options.HeldOutSource = None,
    sentences: int = option("Measure on the first N sentences.", default=100, min=1, metavar="N"),
    beam: shared_options.Beam = None,
    keep: bool = option("Let later translations use the fastest engine found.", default=True),
    json: shared_options.Json = False,
) -> None:
    """Each engine and precision translates the same sentences, as a stream and one at a time, in a
    separate process; if there is a GPU, also on it. The engine that is fastest for a stream on the
    CPU is kept in the run's folder, with its batch size, and from then on `regard translate` uses
    it on this machine. The native engine's int8 and bfloat16 are measured but never kept, because
    no check compares them with float32. For other toolkits see docs/performance.md.

    Examples:

        regard bench runs/travel
        regard bench runs/mine --source letters.en --beam 1 --no-keep
    """
    texts = read_sources(model, source, note)[:sentences]
    if not any(text.strip() for text in texts):
        raise SettingsError("all sentences are blank: there is nothing to measure")
    trials: dict[EngineVariant, VariantTiming] = {}
    unmeasured: list[EngineVariant] = []
    for variant in list_variants():
        note(f"measuring {variant}")
        found = time_variant(Path(model), variant, texts, beam)
        if isinstance(found, VariantTiming):
            trials[variant] = found
            continue
        note(f"without {variant}: {found.why}")
        if found.transient and variant.may_be_default:
            unmeasured.append(variant)
    if not trials:
        raise RunError(f"{model}: no engine can translate with it here")
    best = max(trials, key=lambda variant: trials[variant].sentences)
    if keep:
        _save_fastest(Path(model), trials, unmeasured)
    if json:
        print_json(_to_json(trials, best))
    else:
        _print(trials, best, len(texts))


def _save_fastest(
    run: Path, trials: dict[EngineVariant, VariantTiming], unmeasured: Sequence[EngineVariant]
) -> None:
    """Save the fastest variant that may be a default, unless another could not be measured."""
    if unmeasured:
        return note(
            f"nothing is kept: {' and '.join(map(str, unmeasured))} could not be measured this "
            "time; measure again when the cause is removed"
        )
    usable = [trial for variant, trial in trials.items() if variant.may_be_default]
    if not usable:
        return note(
            "nothing is kept: no engine measured on the CPU is the native one in float32, or was "
            "checked to be equal to it"
        )
    choice = max(usable, key=lambda trial: trial.sentences).choice
    try:
        save_tuned_engine(
            run, EngineMeasurement(machine=this_machine(), date=today(), fastest=choice)
        )
    except StorageError as error:
        return note(f"the measurement cannot be kept: {error}")
    return note(f"kept in {run / MEASURED_FILE}: {choice.engine} {choice.precision}")


def _same_share(trials: dict[EngineVariant, VariantTiming], trial: VariantTiming) -> float:
    """The share of sentences translated as by the last variant, the most exact one."""
    exact = list(trials.values())[-1].texts
    return sum(a == b for a, b in zip(trial.texts, exact, strict=True)) / len(exact)


def _print(trials: dict[EngineVariant, VariantTiming], best: EngineVariant, count: int) -> None:
    numbers = ("sentences/s", "tokens/s", "one, ms", "load, s", "peak MB", "same", "batch")
    title = f"{count} sentences, {this_machine()}"
    rows = [
        (
            f"[bold]{variant}[/bold]" if variant == best else str(variant),
            f"{trial.sentences:,.1f}",
            f"{trial.tokens:,.0f}",
            f"{trial.milliseconds:.1f}",
            f"{trial.loading:.2f}",
            f"{trial.megabytes:,.0f}",
            f"{_same_share(trials, trial):.0%}",
            f"{trial.choice.budget:,}",
        )
        for variant, trial in trials.items()
    ]
    out.print(plain_table("engine", *numbers, title=title, right=numbers, gap=1, rows=rows))
    fastest_single = min(trials, key=lambda variant: trials[variant].milliseconds)
    exact = list(trials)[-1]
    out.print(f"fastest for a stream: {best}; one by one: {fastest_single}")
    out.print(f"[dim]same: sentences whose translation equals that of {exact}[/dim]")


def _to_json(trials: dict[EngineVariant, VariantTiming], best: EngineVariant) -> dict[str, Any]:
    return {
        "machine": this_machine(),
        "fastest": {**trials[best].choice.model_dump(), "device": best.device},
        "ways": [
            {
                **trial.choice.model_dump(),
                "device": variant.device,
                "sentences_per_second": trial.sentences,
                "tokens_per_second": trial.tokens,
                "milliseconds": trial.milliseconds,
                "loading_seconds": trial.loading,
                "peak_megabytes": trial.megabytes,
                "agreement": _same_share(trials, trial),
            }
            for variant, trial in trials.items()
        ],
    }
