"""The measurements of a row of a comparison, taken in the same way for every row."""

import math
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import torch
from pydantic import TypeAdapter

from regard.alignment.run_alignment import (
    align_pairs,
    has_cross_attention,
    measure_by_gold,
    read_gold,
    read_selection_examples,
)
from regard.atomic_io import write_atomic
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.flops import flops_per_token
from regard.comparison.machine import Machine, this_machine, today
from regard.comparison.plan import ComparisonPlan, PlanEntry, SavedRecord
from regard.corpora.corpus import Pair
from regard.decoding.settings import DecodingSettings, search_settings
from regard.errors import DamagedError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.scores import Score, ScoreSettings, score
from regard.json_files import load_json, read_json
from regard.manifest import check_file, is_intact
from regard.pipelines.run_evaluation import translator_perplexity
from regard.pipelines.translator import Translator
from regard.recipes.dry_run import time_steps
from regard.recipes.prepared_data import PreparedData, load_data, prepare
from regard.recipes.run_folder import Run, RunFolder, count_parameters, load_run
from regard.text.word_units import count_units
from regard.training.checkpoints import last_progress
from regard.training.loop import Reporter

SCORE_SETTINGS = ScoreSettings(metrics=("bleu", "chrf"))
WARMUP_SENTENCES = 64
"""Sentences translated before the clock starts."""


class ReferencePerplexity(SavedRecord):
    """Perplexity of the references, in three units."""

    per_token: float
    """For each token of the model's vocabulary, EOS included."""
    per_word: float
    """For each word, or letter in scripts without spaces: comparable across vocabularies."""
    bits_per_character: float


class RowScore(SavedRecord):
    """A score of a row's translations, with its 95% bootstrap interval."""

    name: str
    value: float
    low: float
    high: float
    signature: str


class RowAlignment(SavedRecord):
    """The error of the alignment by attention."""

    error_rate: float
    precision: float
    recall: float
    chosen: str
    """Its layers and heads, selected on validation pairs."""


class UntimedMeasurements(SavedRecord):
    """Measurements that need no clock: other processes may run meanwhile."""

    family: str
    attends: bool
    """Whether the model attends to the source."""
    parameters: int
    steps: int
    """Steps of training."""
    tokens: int
    """Target tokens of training: steps times the mean of a step."""
    flops: float
    """Of the whole training (`comparison.flops`)."""
    seconds: float
    """Of the training steps, on a machine that may have been shared."""
    surprise: ReferencePerplexity
    alignment: RowAlignment | None


class MeasuredRow(UntimedMeasurements):
    """One system with one seed, measured."""

    label: str
    seed: int
    tokens_per_second: float
    """Of training steps, on a machine that was not shared."""
    scores: tuple[RowScore, ...]
    sentences_per_second: float
    """Of the translation of the test set, on a machine that was not shared."""
    machine: Machine
    date: str

    def value(self, name: str) -> float:
        """The score of that name."""
        return next(score.value for score in self.scores if score.name == name)


class Failure(SavedRecord):
    """Why a row was not measured."""

    label: str
    seed: int
    reason: str


ROW_ADAPTER: TypeAdapter[MeasuredRow | Failure] = TypeAdapter(MeasuredRow | Failure)


def load_row(path: Path) -> MeasuredRow | Failure | None:
    """The measurements or the failure of a row; None if there are none or they are damaged."""
    if not is_intact(path):
        return None
    return load_json(path, ROW_ADAPTER, advice="remove it to measure the row again")


class _LoadedRow(NamedTuple):
    """The trained run of a row, and the pairs it is tested on."""

    run: Run
    data: PreparedData
    pairs: list[Pair]

    @property
    def sources(self) -> list[str]:
        return [pair.source for pair in self.pairs]

    @property
    def references(self) -> list[str]:
        return [pair.target for pair in self.pairs]


def _load(home: RunFolder, device: torch.device) -> _LoadedRow:
    data = load_data(home)
    pairs = list(data.read(data.held_out()))
    return _LoadedRow(load_run(home.path, device=device), data, pairs)


def measure_untimed(
    entry: PlanEntry, folder: ComparisonFolder, *, device: torch.device, reporter: Reporter
) -> UntimedMeasurements:
    """The measurements of a row's trained run that need no clock, taken once and saved."""
    saved = folder.findings(entry)
    with suppress(DamagedError, OSError, ValueError):  # damaged ones are measured again
        check_file(saved)
        return read_json(saved, UntimedMeasurements)
    reporter.noted("examining")
    home = folder.run(entry)
    row = _load(home, device)
    run, recipe = row.run, row.run.recipe
    progress = last_progress(home.path)
    assert progress is not None  # a trained run has a checkpoint
    inputs = prepare(recipe, home, reporter.noted)
    tokens = progress.step * inputs.fitting.tokens_per_step(recipe.training)
    measured = translator_perplexity(Translator([run]), row.sources, row.references)
    found = UntimedMeasurements(
        family=recipe.model.family,
        attends=has_cross_attention(run),
        parameters=count_parameters(run.model),
        steps=progress.step,
        tokens=round(tokens),
        flops=tokens * flops_per_token(inputs),
        seconds=progress.seconds,
        surprise=_reference_perplexity(measured, row.references),
        alignment=_alignment(row),
    )
    write_atomic(saved, found.model_dump_json(indent=1).encode())
    return found


def measure_row(
    entry: PlanEntry,
    plan: ComparisonPlan,
    folder: ComparisonFolder,
    *,
    device: torch.device,
    reporter: Reporter,
) -> MeasuredRow:
    """Measure the trained run of a row, while no other process runs, and save the numbers."""
    untimed = measure_untimed(entry, folder, device=device, reporter=reporter)
    home = folder.run(entry)
    row = _load(home, device)
    recipe = row.run.recipe
    reporter.noted(f"translating {len(row.pairs):,} sentences")
    decoding = search_settings(recipe.decoding, beam=plan.beam)
    texts, seconds = _timed_translation(Translator([row.run]), row.sources, decoding)
    reporter.noted("measuring")
    inputs = prepare(recipe, home, reporter.noted)
    with TemporaryDirectory(prefix="regard-timing-") as temporary:
        timed = time_steps(inputs, RunFolder(Path(temporary)), device=device)
    settings = SCORE_SETTINGS.model_copy(update={"tokenize": plan.tokenize})
    scores = score(texts, row.references, settings)
    measured = MeasuredRow(
        **dict(untimed),
        label=entry.label,
        seed=entry.seed,
        tokens_per_second=timed.tokens_per_second,
        scores=tuple(_row_score(score) for score in scores),
        sentences_per_second=len(row.pairs) / seconds,
        machine=this_machine(device),
        date=today(),
    )
    write_atomic(folder.translations(entry), "".join(f"{text}\n" for text in texts).encode())
    write_atomic(folder.row(entry), measured.model_dump_json(indent=1).encode())
    return measured


def _timed_translation(
    translator: Translator, sources: list[str], settings: DecodingSettings
) -> tuple[list[str], float]:
    """The translations, and the seconds they took after a warm-up."""
    translator.translate(sources[:WARMUP_SENTENCES], settings, split=False)
    began = time.perf_counter()
    texts = [answer.text for answer in translator.translate(sources, settings, split=False)]
    return texts, time.perf_counter() - began


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
    run, data, pairs = row
    split = data.held_out()
    if not (data.gold("valid").exists() and data.gold(split).exists() and has_cross_attention(run)):
        return None
    choice = measure_by_gold(run, *read_selection_examples(data), save=False)
    errors = score_alignments(align_pairs(run, pairs, choice.settings), read_gold(data, split))
    return RowAlignment(**errors._asdict(), chosen=str(choice.settings))
