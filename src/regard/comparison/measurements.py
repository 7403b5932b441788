"""The measurements of a row of a comparison, taken in the same way for every row."""

import math
import os
import platform
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch
from pydantic import TypeAdapter

from regard import __version__
from regard.alignment.run_alignment import (
    align_pairs,
    has_cross_attention,
    measure_by_gold,
    read_gold,
    read_selection_examples,
)
from regard.atomic_io import write_atomic
from regard.comparison.flops import flops_per_token
from regard.comparison.plan import SavedRecord
from regard.comparison.row_training import RowContext
from regard.decoding.settings import search_settings
from regard.engines.engine_tuning import processor_name
from regard.errors import DamagedError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.scores import Score, ScoreSettings, score
from regard.json_files import load_json, read_json
from regard.manifest import check_file, is_intact
from regard.pipelines.run_evaluation import translator_perplexity
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import count_parameters, load_data
from regard.tasks.translation.pipeline import Translator
from regard.tasks.translation.training_inputs import prepare
from regard.tasks.translation.trial.dry_run import describe_device
from regard.text.word_units import count_units
from regard.training.checkpoints import last_progress

BLEU = "BLEU"
SCORE_SETTINGS = ScoreSettings(metrics=("bleu", "chrf"))
WARMUP_SENTENCES = 64  # translated before the clock starts


class Machine(SavedRecord):
    """The machine and the software on which numbers were measured."""

    processor: str
    device: str  # the name of a GPU, or the number of the processor's threads
    system: str
    versions: str

    def __str__(self) -> str:
        return f"{self.device} ({self.processor}), {self.system}, {self.versions}"


def this_machine(device: torch.device) -> Machine:
    return Machine(
        processor=f"{processor_name()}, {os.cpu_count()} logical cores",
        device=describe_device(device),
        system=f"{platform.system()} {platform.machine()}",
        versions=(
            f"regard {__version__}, Python {platform.python_version()}, torch {torch.__version__}, "
            f"sacrebleu {version('sacrebleu')}"
        ),
    )


def today() -> str:
    """The date, in UTC."""
    return datetime.now(UTC).date().isoformat()


class ReferencePerplexity(SavedRecord):
    """Perplexity of the references, in three units."""

    per_token: float  # for each token of the model's vocabulary, EOS included
    per_word: float
    """For each word, or character in scripts without spaces: comparable across vocabularies."""
    bits_per_character: float


class RowScore(SavedRecord):
    """A score of a row's translations, with its 95% bootstrap interval."""

    name: str
    value: float
    low: float
    high: float
    signature: str


class RowAlignment(SavedRecord):
    """The error of the alignment derived from attention."""

    error_rate: float
    precision: float
    recall: float
    chosen: str  # its layers and heads, selected on validation pairs


class UntimedMeasurements(SavedRecord):
    """Measurements other than speeds: they may be taken while other processes run. Those of
    training are 0 for an imported model.
    """

    family: str
    attends: bool  # whether the model attends to the source
    parameters: int
    steps: int
    tokens: int  # target tokens of training: steps times the mean of a step
    flops: float  # of the whole training (`comparison.flops`)
    seconds: float  # of the training steps, on a machine that may have been shared
    surprise: ReferencePerplexity
    alignment: RowAlignment | None


class MeasuredRow(UntimedMeasurements):
    """One system with one seed, measured."""

    label: str
    seed: int
    tokens_per_second: float  # of training steps, on a machine that was not shared
    scores: tuple[RowScore, ...]
    sentences_per_second: float
    """The speed of translating the test set, on a machine that was not shared."""
    machine: Machine
    date: str

    def value(self, name: str) -> float:
        return next(score.value for score in self.scores if score.name == name)

    def headline(self) -> str:
        """The result in a few words."""
        bleu, steps = self.value(BLEU), f"{self.steps:,} steps in {self.seconds:,.0f} s"
        return f"{BLEU} {bleu:.2f} after {steps}"


class TaskRow(SavedRecord):
    """One system with one seed, of a task other than translation, measured."""

    label: str
    seed: int
    corpus: str  # rows of one corpus are compared with each other
    family: str
    parameters: int
    steps: int
    seconds: float  # of the training steps, on a machine that may have been shared
    start_seconds: float  # of the training of the runs that it was initialised from
    split: str
    examples: int
    digest: str  # of the examples
    score: RowScore
    lower_is_better: bool
    drawn: tuple[float, ...]  # scores on resampled examples, the same resamples for all rows
    numbers: dict[str, float]  # all measurements
    machine: Machine
    date: str

    def headline(self) -> str:
        """The result in a few words."""
        steps = f"{self.steps:,} steps in {self.seconds:,.0f} s"
        return f"{self.score.name} {self.score.value:.2f} after {steps}"


class Failure(SavedRecord):
    """Why a row was not measured."""

    label: str
    seed: int
    reason: str


AnyRow = MeasuredRow | TaskRow
ROW_ADAPTER: TypeAdapter[AnyRow | Failure] = TypeAdapter(AnyRow | Failure)


def load_row(path: Path) -> AnyRow | Failure | None:
    """The measurements or the failure of a row; None if there are none or they are damaged."""
    if not is_intact(path):
        return None
    return load_json(path, ROW_ADAPTER, advice="remove it to measure the row again")


class _LoadedRow:
    """The trained run of a row, and the pairs that it is tested on."""

    def __init__(self, row: RowContext) -> None:
        self.data = load_data(row.data)
        self.run = open_run(row.run.path, device=row.device)
        self.pairs = list(self.data.read(self.data.held_out()))
        self.sources = [pair.source for pair in self.pairs]
        self.references = [pair.target for pair in self.pairs]


def measure_untimed(row: RowContext) -> UntimedMeasurements:
    """The measurements of a row's trained run other than speeds, taken once and saved."""
    saved = row.folder.findings(row.entry)
    with suppress(DamagedError, OSError, ValueError):  # damaged files are measured again
        check_file(saved)
        return read_json(saved, UntimedMeasurements)
    row.reporter.noted("examining")
    loaded = _LoadedRow(row)
    run, recipe = loaded.run, loaded.run.recipe
    progress = last_progress(row.run.path)
    tokens = flops = 0.0
    if progress is not None:  # None: it was imported
        inputs = prepare(recipe, row.run.path, row.reporter.noted, resumed=True)
        tokens = progress.step * inputs.fitting.tokens_per_step(recipe.training)
        flops = tokens * flops_per_token(inputs)
    perplexity = translator_perplexity(Translator([run]), loaded.sources, loaded.references)
    found = UntimedMeasurements(
        family=recipe.model.family,
        attends=has_cross_attention(run),
        parameters=count_parameters(run.model),
        steps=0 if progress is None else progress.step,
        tokens=round(tokens),
        flops=flops,
        seconds=0.0 if progress is None else progress.seconds,
        surprise=_reference_perplexity(perplexity, loaded.references),
        alignment=_alignment(loaded),
    )
    found.save(saved)
    return found


def measure_row(row: RowContext) -> MeasuredRow:
    """Measure the trained run of a row, while no other process runs, and save the numbers."""
    untimed, loaded = measure_untimed(row), _LoadedRow(row)
    recipe = loaded.run.recipe
    row.reporter.noted(f"translating {len(loaded.pairs):,} sentences")
    decoding = search_settings(recipe.decoding, beam=row.plan.beam)
    translator = Translator([loaded.run])
    translator.translate(loaded.sources[:WARMUP_SENTENCES], decoding, split=False)
    began = time.perf_counter()
    answers = translator.translate(loaded.sources, decoding, split=False)
    texts, seconds = [answer.text for answer in answers], time.perf_counter() - began
    row.reporter.noted("measuring")
    speed = 0.0
    if not row.entry.is_imported:
        inputs = prepare(recipe, row.run.path, row.reporter.noted, resumed=True)
        timed = row.time_steps(inputs)
        speed = timed.tokens_per_second
    settings = SCORE_SETTINGS.model_copy(update={"tokenize": row.plan.tokenize})
    scores = score(texts, loaded.references, settings)
    measured = MeasuredRow(
        **dict(untimed),
        label=row.entry.label,
        seed=row.entry.seed,
        tokens_per_second=speed,
        scores=tuple(_row_score(score) for score in scores),
        sentences_per_second=len(loaded.pairs) / seconds,
        machine=this_machine(row.device),
        date=today(),
    )
    lines = "".join(f"{text}\n" for text in texts)
    write_atomic(row.folder.translations(row.entry), lines.encode())
    measured.save(row.folder.row(row.entry))
    return measured


def _reference_perplexity(measured: Perplexity, references: list[str]) -> ReferencePerplexity:
    nats = measured.loss * measured.num_tokens
    words = sum(map(count_units, references))
    characters = sum(len(text.strip()) for text in references)
    return ReferencePerplexity(
        per_token=measured.value,
        per_word=math.exp(min(700, nats / max(1, words))),
        bits_per_character=nats / math.log(2) / max(1, characters),
    )


def _row_score(score: Score) -> RowScore:
    assert score.interval is not None  # the settings ask for it
    low, high = score.interval
    return RowScore(
        name=score.name, value=score.value, low=low, high=high, signature=score.signature
    )


def _alignment(row: _LoadedRow) -> RowAlignment | None:
    """The alignment error, if there are gold alignments and the model attends to the source."""
    run, data, split = row.run, row.data, row.data.held_out()
    if not (data.gold("valid").exists() and data.gold(split).exists() and has_cross_attention(run)):
        return None
    choice = measure_by_gold(run, *read_selection_examples(data), save=False)
    errors = score_alignments(align_pairs(run, row.pairs, choice.settings), read_gold(data, split))
    return RowAlignment(**errors._asdict(), chosen=str(choice.settings))
