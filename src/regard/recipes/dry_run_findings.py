"""The numbers of a trial -> what they mean, and what to do about it."""

import os
from collections.abc import Iterator

from regard.corpora.diagnostics.findings import Finding
from regard.recipes.dry_run import DryRun
from regard.recipes.memory import format_bytes, format_seconds
from regard.recipes.recipe import Recipe
from regard.recipes.train_run import warmup_warning

LONG_RUN_SECONDS = 86_400.0
"""Seconds of a run from which a person is warned."""
TIGHT_SHARE, ROOMY_SHARE = 0.85, 0.4
"""Shares of the memory: above one it may not suffice, below the other a GPU has little to do."""
TARGET_MEMORY_SHARE = 0.8
"""Share of a GPU's memory that a larger batch may be expected to fill."""
TRAINING_BYTES_PER_PARAMETER = 16
"""Bytes of each parameter: its weight, its gradient and Adam's two means."""
BUSY_SHARE = 0.5
"""Share of the cores that others use."""
MANY_EPOCHS = 200
VALIDATION_SHARE = 0.3
TOO_LONG_SHARES = (0.01, 0.1)
UNKNOWN_SHARES = (0.01, 0.05)
"""Shares that are worth a note, and a warning."""


def diagnose_dry_run(trial: DryRun, recipe: Recipe) -> list[Finding]:
    """What a trial of a recipe means."""
    checks = (_memory, _disk, _time, _text)
    return [finding for part in checks for finding in part(trial, recipe)]


def _memory(trial: DryRun, recipe: Recipe) -> Iterator[Finding]:
    asked, fits = recipe.training.batch_tokens, trial.batch_tokens
    room = f"{format_bytes(trial.memory_available)} of memory on {trial.device}"
    if fits < asked:
        times = recipe.training.accumulate * -(-asked // fits)
        yield Finding(
            "problem",
            f"A batch of {asked:,} tokens does not fit into {room}; one of {fits:,} does: "
            f"--set training.batch_tokens={fits} --set training.accumulate={times} comes to the "
            "same. Time and memory are given for that.",
        )
        return
    share = trial.memory / trial.memory_available
    sentence = f"Training takes {format_bytes(trial.memory)} of {room}"
    if share > TIGHT_SHARE:
        yield Finding(
            "warning", f"{sentence}, which is tight: lower training.batch_tokens ({asked:,})."
        )
        return
    yield Finding("ok", f"{sentence}.")
    state = TRAINING_BYTES_PER_PARAMETER * trial.parameters
    if share < ROOMY_SHARE and not trial.device.startswith("cpu") and trial.memory > state:
        larger = (
            asked * (TARGET_MEMORY_SHARE * trial.memory_available - state) / (trial.memory - state)
        )
        yield Finding(
            "note",
            f"There is room for training.batch_tokens={_floor_power_of_two(larger):,}, which may "
            "go "
            "faster; the learning rate is then to be chosen again.",
        )


def _disk(trial: DryRun, recipe: Recipe) -> Iterator[Finding]:
    needed, free = format_bytes(trial.disk), format_bytes(trial.disk_free)
    if trial.disk > trial.disk_free:
        yield Finding(
            "problem",
            f"The run will take {needed} of disk, and {free} are free. Make room, or keep fewer "
            f"weights (training.average, now {recipe.training.average}).",
        )
    elif trial.disk > TIGHT_SHARE * trial.disk_free:
        yield Finding("warning", f"The run will take {needed} of the {free} of disk that are free.")
    else:
        yield Finding("ok", f"The run will take {needed} of the {free} of disk that are free.")


def _time(trial: DryRun, recipe: Recipe) -> Iterator[Finding]:
    settings, times = recipe.training, trial.times
    early = ", if it does not stop early," if settings.validation.patience else ""
    sentence = f"Training{early} takes about {format_seconds(times.total)}"
    if times.total > LONG_RUN_SECONDS:
        yield Finding(
            "warning",
            f"{sentence}. Fewer training.steps ({settings.steps:,}), a smaller model or a faster "
            "device would shorten it.",
        )
    else:
        yield Finding("ok", f"{sentence}.")
    if settings.schedule.warmup > settings.steps:
        warning = warmup_warning(settings)
        yield Finding("warning", f"{warning[0].upper()}{warning[1:]}.")
    cores = os.cpu_count() or 1
    if trial.device.startswith("cpu") and trial.load - 1 >= BUSY_SHARE * cores:
        yield Finding(
            "note",
            f"This machine is busy (a load of {trial.load:.1f} on {cores} cores): training may be "
            "faster when it is not.",
        )
    if times.validating > VALIDATION_SHARE * times.total:
        yield Finding(
            "note",
            f"Validations take {times.validating / times.total:.0%} of that: raise "
            f"training.validation.every ({settings.validation.every:,}) or lower "
            f"training.validation.sentences ({settings.validation.sentences:,}).",
        )
    if trial.epochs < 1:
        yield Finding(
            "note",
            f"{settings.steps:,} steps see {trial.epochs:.0%} of the corpus: more training.steps "
            "would learn from all of it.",
        )
    elif trial.epochs > MANY_EPOCHS:
        yield Finding(
            "note",
            f"{settings.steps:,} steps see each pair {trial.epochs:,.0f} times, where it may be "
            "learned by heart: fewer training.steps, or a training.validation.patience.",
        )
    if settings.compile:
        yield Finding(
            "note", "The trial ran without training.compile, which makes a GPU faster than said."
        )
    if recipe.refinement is not None:
        yield Finding(
            "note",
            f"The {recipe.refinement.steps:,} steps of refinement come on top of that: the trial "
            "did not try them.",
        )


def _text(trial: DryRun, recipe: Recipe) -> Iterator[Finding]:
    if trial.too_long > TOO_LONG_SHARES[0]:
        yield Finding(
            "warning" if trial.too_long > TOO_LONG_SHARES[1] else "note",
            f"{trial.too_long:.1%} of the pairs have more than {recipe.training.max_tokens} tokens "
            "and are left out: cut them into sentences, or raise training.max_tokens.",
        )
    for side, share in trial.unknown._asdict().items():
        if share > UNKNOWN_SHARES[0]:
            group = f"text.{side if recipe.text.target else 'source'}"
            yield Finding(
                "warning" if share > UNKNOWN_SHARES[1] else "note",
                f"{share:.1%} of the held-out {side} tokens are unknown to the vocabulary: raise "
                f"{group}.size, or take subwords ({group}.kind=bpe), which know all.",
            )
    if sentence := str(trial.cut):
        yield Finding("warning", f"Of the pairs tried, {sentence}.")
    asked = recipe.text.source.size
    if max(trial.vocabulary) < asked and trial.pairs < trial.all_pairs:
        yield Finding(
            "note",
            f"{trial.pairs:,} pairs gave a vocabulary of {max(trial.vocabulary):,}, not "
            f"{asked:,}: with the whole corpus the model may be larger than said here.",
        )


def _floor_power_of_two(number: float) -> int:
    """The largest power of two that is not more."""
    return 1 << (max(1, int(number)).bit_length() - 1)
