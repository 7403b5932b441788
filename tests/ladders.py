"""Comparisons so small that they take seconds, and made-up results of comparisons."""

from statistics import mean

from typer.testing import CliRunner

from regard.cli.commands import compare
from regard.cli.main import command_app
from regard.comparison import row_processes
from regard.comparison.measurements import Machine, RowScore
from regard.comparison.plan import ComparisonFolder
from regard.comparison.results import MeanInterval, SeedSpread, Significance
from regard.errors import RegardError
from regard.recipes.recipe_files import dump_recipe
from regard.tasks.translation.comparison import flops
from regard.tasks.translation.comparison.results import (
    ComparisonResults,
    MeasuredRow,
    Quarter,
    ReferencePerplexity,
    RowAlignment,
    SystemCosts,
    SystemResult,
)
from regard.tasks.translation.trial import dry_run
from tiny import tiny_recipe

app = command_app("compare")

MODELS = {
    "plain": "{family: rnn, width: 16, embedding: 8}",
    "search": "{family: rnnsearch, width: 16, embedding: 8, alignment: 6, readout: 10}",
    "turned": "{family: luong, width: 16, embedding: 8, reading: both}",
}
SMALL = (
    "corpus.generated={train: 200, valid: 12, test: 16}",
    "training.steps=6",
    "training.batch_tokens=256",
    "training.validation={every: 100, sentences: 2, by: loss}",
    "training.average=1",
    "decoding.rules.max_length=12",
)


def small_recipe(name, *overrides):
    return tiny_recipe(f"name={name}", f"model={MODELS[name]}", *SMALL, *overrides)


def write_recipes(folder, *overrides):
    """Files of all small recipes, by their names."""
    for name in MODELS:
        (folder / f"{name}.yaml").write_text(dump_recipe(small_recipe(name, *overrides)))


class Ended:
    """A process that has ended."""

    def __init__(self, code):
        self._code = code

    def poll(self):
        return self._code

    def terminate(self):
        raise AssertionError("it has ended already")


def start_here(folder: ComparisonFolder, device: str, jobs: int):
    """Replaces `start_process`: each row runs in this process, at once."""

    def start(job, log):
        code = 0
        with log.open("a") as file:
            try:
                compare._run_row(folder, job.entry.name, job.goal, device)
            except RegardError as error:
                file.write(f"error: {error}\n")
                code = 1
        return Ended(code)

    return start


def be_quick(patch):
    """Run everything in this process, and time and count few steps only."""
    patch.setattr(row_processes, "start_process", start_here)
    patch.setattr(dry_run, "MIN_TIMED_SECONDS", 0.0)
    patch.setattr(dry_run, "MIN_TIMED_STEPS", 2)
    patch.setattr(flops, "NUM_BATCHES", 1)


def run_compare(*args, device="cpu"):
    args = [*map(str, args), "--device", device]
    return CliRunner().invoke(app, args, catch_exceptions=False)


MACHINE = Machine(processor="a processor", device="cpu, 1 thread", system="Linux", versions="all")


def made_up_row(label, bleu, *, seed=1, attends=True, flops=2e15, machine=MACHINE, **others):
    row = MeasuredRow(
        label=label,
        seed=seed,
        family="transformer",
        attends=attends,
        parameters=12_345_678,
        steps=5_000,
        tokens=9_876_543,
        flops=flops,
        seconds=1234.5,
        tokens_per_second=45_678.0,
        surprise=ReferencePerplexity(per_token=3.2, per_word=8.125, bits_per_character=0.9),
        scores=(
            RowScore(name="BLEU", value=bleu, low=bleu - 1.5, high=bleu + 1.25, signature="b|1"),
            RowScore(name="chrF2", value=bleu + 20, low=1, high=99, signature="c|2"),
        ),
        sentences_per_second=234.0,
        alignment=RowAlignment(error_rate=0.125, precision=0.9, recall=0.85, chosen="layer 1")
        if attends
        else None,
        machine=machine,
        date="2026-11-15",
    )
    return row.model_copy(update=others)


def made_up_standing(label, bleus, lengths, *, p_value=None, **row):
    rows = [made_up_row(label, bleu, seed=seed, **row) for seed, bleu in enumerate(bleus, 1)]
    aligned = [one.alignment.error_rate for one in rows if one.alignment]
    return SystemResult(
        label=label,
        rows=tuple(rows),
        failures=(),
        waiting=0,
        bleu=SeedSpread.of(bleus),
        interval=MeanInterval(low=mean(bleus) - 1.5, high=mean(bleus) + 1.25) if bleus else None,
        chrf=SeedSpread.of([bleu + 20 for bleu in bleus]),
        perplexity=SeedSpread.of([one.surprise.per_word for one in rows]),
        error_rate=SeedSpread.of(aligned),
        by_length=tuple(lengths),
        costs=SystemCosts.of(rows),
        significance=None if p_value is None else Significance(difference=-1, p_value=p_value),
    )


def made_up_ladder(*standings, best=None, at_once=1):
    sizes = ((4, 9, 268, 7.6), (10, 11, 231, 10.5), (12, 14, 262, 12.9), (15, 34, 239, 18.1))
    return ComparisonResults(
        standings=standings,
        best=best,
        quarters=tuple(
            Quarter(shortest=a, longest=b, sentences=count, mean_length=mean)
            for a, b, count, mean in sizes
        ),
        data="0123abc",
        origin="made up",
        split="test",
        sentences=1000,
        budget="5,000 steps of training for each row",
        beam=5,
        signatures={"BLEU": "b|1", "chrF2": "c|2"},
        at_once=at_once,
    )
