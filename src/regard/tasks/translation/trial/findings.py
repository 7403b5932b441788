"""The measurements of a dry run -> what they mean, and what to do about it."""

import os
from collections.abc import Iterator

from regard.corpora.diagnostics.findings import Finding
from regard.recipes.memory import format_bytes, format_seconds
from regard.recipes.train_run import warmup_warning
from regard.settings import format_times
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.trial.device_plan import state_bytes
from regard.tasks.translation.trial.dry_run import DryRun

LONG_RUN_SECONDS = 86_400.0  # of a run; longer ones get a warning
TIGHT_SHARE, ROOMY_SHARE = 0.85, 0.4  # of memory: above, a risk; below, hardly used
TARGET_MEMORY_SHARE = 0.8  # of a GPU's memory that a larger batch is estimated to fill
BUSY_SHARE = 0.5  # of the cores; the machine is busy if other processes use more
MANY_EPOCHS, VALIDATION_SHARE = 200, 0.3
TOO_LONG_SHARES, UNKNOWN_SHARES = (0.01, 0.1), (0.01, 0.05)  # of a note, and of a warning


def diagnose_dry_run(result: DryRun, recipe: TranslationRecipe) -> list[Finding]:
    """Findings on the memory, disk, time and text of a dry run of a recipe."""
    checks = (_memory, _disk, _time, _text)
    return [finding for check in checks for finding in check(result, recipe)]


def _memory(result: DryRun, recipe: TranslationRecipe) -> Iterator[Finding]:
    asked, fits = recipe.training.batch_tokens, result.steps.batch_tokens
    memory, available = result.steps.memory, result.memory_available
    room = f"{format_bytes(available)} of memory on {result.device}"
    if fits < asked:
        times = recipe.training.accumulate * -(-asked // fits)
        yield Finding(
            "problem",
            f"A batch of {asked:,} tokens does not fit into {room}; one of {fits:,} does: "
            f"--set training.batch_tokens={fits} --set training.accumulate={times} is "
            "equivalent. Time and memory are given for these settings.",
        )
        return
    sentence = f"Training takes {format_bytes(memory)} of {room}"
    if memory > TIGHT_SHARE * available:
        advice = f"which is tight: lower training.batch_tokens ({asked:,})"
        yield Finding("warning", f"{sentence}, {advice}.")
        return
    yield Finding("ok", f"{sentence}.")
    state = state_bytes(result.steps.parameters, recipe.training)
    on_cpu = result.device.startswith("cpu")
    if memory < ROOMY_SHARE * available and not on_cpu and memory > state:
        larger = asked * (TARGET_MEMORY_SHARE * available - state) / (memory - state)
        power_of_two = 1 << (max(1, int(larger)).bit_length() - 1)  # not above `larger`
        yield Finding(
            "note",
            f"There is room for training.batch_tokens={power_of_two:,}, which may be faster; the "
            "learning rate must then be chosen again.",
        )


def _disk(result: DryRun, recipe: TranslationRecipe) -> Iterator[Finding]:
    needed, free = format_bytes(result.disk), format_bytes(result.disk_free)
    if result.disk > result.disk_free:
        yield Finding(
            "problem",
            f"The run will take {needed} of disk, and {free} are free. Make room, or keep fewer "
            f"weights (training.average, now {recipe.training.average}).",
        )
        return
    tight = result.disk > TIGHT_SHARE * result.disk_free
    sentence = f"The run will take {needed} of the {free} of disk that are free."
    yield Finding("warning" if tight else "ok", sentence)


def _time(result: DryRun, recipe: TranslationRecipe) -> Iterator[Finding]:
    settings, times = recipe.training, result.times
    early = ", if it does not stop early," if settings.validation.patience else ""
    sentence = f"Training{early} takes about {format_seconds(times.total)}{busy_clause(result)}."
    if times.total > LONG_RUN_SECONDS:
        yield Finding(
            "warning",
            f"{sentence} Fewer training.steps ({settings.steps:,}), a smaller model or a faster "
            "device would shorten it.",
        )
    else:
        yield Finding("ok", sentence)
    if settings.schedule.warmup_steps > settings.steps:
        warning = warmup_warning(settings)
        yield Finding("warning", f"{warning[0].upper()}{warning[1:]}.")
    yield from (Finding("note", text) for text in _time_notes(result, recipe))


def busy_clause(result: DryRun) -> str:
    """An addition to an estimate of time if the machine was busy while it was measured."""
    cores = os.cpu_count() or 1
    if not result.device.startswith("cpu") or result.load - 1 < BUSY_SHARE * cores:
        return ""
    on_cores = f"{cores} core{'s' if cores > 1 else ''}"
    return (
        f", less when this machine is not busy: the load was {result.load:.1f} on {on_cores} when "
        "this was measured"
    )


def _time_notes(result: DryRun, recipe: TranslationRecipe) -> Iterator[str]:
    settings, times = recipe.training, result.times
    if times.validating > VALIDATION_SHARE * times.total:
        yield (
            f"Validations take {times.validating / times.total:.0%} of that: raise "
            f"training.validation.every ({settings.validation.every:,}) or lower "
            f"training.validation.sentences ({settings.validation.sentences:,})."
        )
    if result.epochs < 1:
        yield (
            f"{settings.steps:,} steps see {result.epochs:.0%} of the corpus: more training.steps "
            "would learn from all of it."
        )
    elif result.epochs > MANY_EPOCHS and settings.validation.patience is None:
        yield (
            f"{settings.steps:,} steps see each pair {format_times(result.epochs)} times, so that "
            "it may be memorised: fewer training.steps, or a training.validation.patience."
        )
    if settings.compile:
        yield "The trial ran without training.compile, which makes a GPU faster than this."
    if recipe.refinement is not None:
        yield (
            f"The {recipe.refinement.steps:,} steps of refinement are not included: the trial "
            "did not run them."
        )


def _text(result: DryRun, recipe: TranslationRecipe) -> Iterator[Finding]:
    text = result.text
    if text.too_long > TOO_LONG_SHARES[0]:
        yield Finding(
            "warning" if text.too_long > TOO_LONG_SHARES[1] else "note",
            f"{text.too_long:.1%} of the pairs have more than {recipe.training.max_tokens} tokens "
            "and are left out: cut them into sentences, or raise training.max_tokens.",
        )
    for side, share in text.unknown._asdict().items():
        if share > UNKNOWN_SHARES[0]:
            group = f"text.{side if recipe.text.target else 'source'}"
            yield Finding(
                "warning" if share > UNKNOWN_SHARES[1] else "note",
                f"{share:.1%} of the held-out {side} tokens are unknown to the vocabulary: raise "
                f"{group}.size, or use subwords ({group}.kind=bpe), which have no unknown tokens.",
            )
    if sentence := str(result.truncation):
        yield Finding("warning", f"Of the pairs tried, {sentence}.")
    asked, learned = recipe.text.source.size, max(text.vocabulary)
    if learned < asked and result.pairs < result.all_pairs:
        yield Finding(
            "note",
            f"{result.pairs:,} pairs gave a vocabulary of {learned:,}, not {asked:,}: with the "
            "whole corpus the model may be larger than estimated here.",
        )
