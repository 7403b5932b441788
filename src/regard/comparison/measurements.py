"""A trained run -> its row of numbers, measured in the same way for every row."""

import math
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from pydantic import TypeAdapter

from regard.alignment.run_alignment import align_pairs, attends, read_gold, select_on_validation
from regard.atomic_io import write_atomic
from regard.comparison.budget import tokens_per_step
from regard.comparison.comparison_folder import ComparisonFolder
from regard.comparison.flops import flops_per_token
from regard.comparison.machine import Machine, this_machine, today
from regard.comparison.plan import ComparisonPlan, PlanEntry, SavedRecord
from regard.corpora.corpus import Pair
from regard.decoding.search_options import search_settings
from regard.decoding.settings import DecodingSettings
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
"""Sentences translated before the time is taken."""


class ReferencePerplexity(SavedRecord):
    """How surprised a model is by the references."""

    per_token: float
    """Perplexity for each token of its own vocabulary, EOS included."""
    per_word: float
    """The same surprise shared out over words, or letters in scripts without spaces: any
    vocabularies compare."""
    bits_per_character: float


class RowScore(SavedRecord):
    """A score of a row's translations."""

    name: str
    value: float
    low: float
    """Where the middle 95% of bootstrap resamples begin, and end."""
    high: float
    signature: str


class RowAlignment(SavedRecord):
    """How far off the alignment by attention is."""

    error_rate: float
    precision: float
    recall: float
    chosen: str
    """Which layers and heads, by their error on validation pairs."""


class UntimedMeasurements(SavedRecord):
    """What is found of a trained run without a clock: others may run beside it."""

    family: str
    attends: bool
    """Whether the model attends to the source."""
    parameters: int
    steps: int
    """That were taken."""
    tokens: int
    """Target tokens learned from: steps times the mean of a step."""
    flops: float
    """Of the training: tokens times the operations for each, see `comparison.flops`."""
    seconds: float
    """Of the steps of training, on a machine that may have done other things as well."""
    surprise: ReferencePerplexity
    alignment: RowAlignment | None


class MeasuredRow(UntimedMeasurements):
    """One system with one seed, measured."""

    label: str
    seed: int
    tokens_per_second: float
    """Of training steps timed alone."""
    scores: tuple[RowScore, ...]
    sentences_per_second: float
    """Of translating the test sentences, alone."""
    machine: Machine
    date: str

    def value(self, name: str) -> float:
        """The score of that name."""
        return next(one.value for one in self.scores if one.name == name)


class Failure(SavedRecord):
    """Why a row has no numbers."""

    label: str
    seed: int
    reason: str


ROW_ADAPTER: TypeAdapter[MeasuredRow | Failure] = TypeAdapter(MeasuredRow | Failure)


def load_row(path: Path) -> MeasuredRow | Failure | None:
    """What became of a row; None: nothing yet, or nothing that is whole."""
    if not is_intact(path):
        return None
    return load_json(path, ROW_ADAPTER, advice="remove it to measure the row again")


def measure_untimed(
    entry: PlanEntry, folder: ComparisonFolder, *, device: torch.device, reporter: Reporter
) -> UntimedMeasurements:
    """What there is to find of the trained run of a row without a clock; kept once it was found."""
    kept = folder.findings(entry)
    with suppress(DamagedError, OSError, ValueError):  # what is not whole is found again
        check_file(kept)
        return read_json(kept, UntimedMeasurements)
    reporter.noted("examining")
    home = folder.run(entry)
    run, data = load_run(home.path, device=device), load_data(home)
    pairs = list(data.read(data.held_out()))
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    progress = last_progress(home.path)
    assert progress is not None  # a trained run has a checkpoint
    prepared = prepare(run.recipe, home, reporter.noted)
    tokens = progress.step * tokens_per_step(prepared.train, run.recipe.training)
    surprise = translator_perplexity(Translator([run]), sources, references)
    found = UntimedMeasurements(
        family=run.recipe.model.family,
        attends=attends(run),
        parameters=count_parameters(run.model),
        steps=progress.step,
        tokens=round(tokens),
        flops=tokens * flops_per_token(run.recipe, prepared),
        seconds=progress.seconds,
        surprise=_reference_perplexity(surprise, references),
        alignment=_alignment(run, data, pairs),
    )
    write_atomic(kept, found.model_dump_json(indent=1).encode())
    return found


def measure_row(
    entry: PlanEntry,
    plan: ComparisonPlan,
    folder: ComparisonFolder,
    *,
    device: torch.device,
    reporter: Reporter,
) -> MeasuredRow:
    """Measure the trained run of a row, with nothing beside it, and keep what was found."""
    found = measure_untimed(entry, folder, device=device, reporter=reporter)
    home = folder.run(entry)
    run, data = load_run(home.path, device=device), load_data(home)
    pairs = list(data.read(data.held_out()))
    reporter.noted(f"translating {len(pairs):,} sentences")
    settings = search_settings(run.recipe.decoding, beam=plan.beam)
    texts, seconds = _timed_translation(
        Translator([run]), [pair.source for pair in pairs], settings
    )
    reporter.noted("measuring")
    prepared = prepare(run.recipe, home, reporter.noted)
    with TemporaryDirectory(prefix="regard-timing-") as temporary:
        timed = time_steps(prepared, RunFolder(Path(temporary)), device=device)
    how = SCORE_SETTINGS.model_copy(update={"tokenize": plan.tokenize})
    scores = score(texts, [pair.target for pair in pairs], how)
    row = MeasuredRow(
        **dict(found),
        label=entry.label,
        seed=entry.seed,
        tokens_per_second=timed.tokens_per_second,
        scores=tuple(_row_score(one) for one in scores),
        sentences_per_second=len(pairs) / seconds,
        machine=this_machine(device),
        date=today(),
    )
    write_atomic(folder.translations(entry), "".join(f"{text}\n" for text in texts).encode())
    write_atomic(folder.row(entry), row.model_dump_json(indent=1).encode())
    return row


def _timed_translation(
    translator: Translator, sources: list[str], settings: DecodingSettings
) -> tuple[list[str], float]:
    """The translations, and how many seconds they took once all was warm."""
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


def _row_score(one: Score) -> RowScore:
    assert one.interval is not None  # the settings ask for it
    return RowScore(
        name=one.name,
        value=one.value,
        low=one.interval.low,
        high=one.interval.high,
        signature=one.signature,
    )


def _alignment(run: Run, data: PreparedData, pairs: list[Pair]) -> RowAlignment | None:
    """The alignment's error where there is gold to take it by, and attention to align by."""
    split = data.held_out()
    if not (data.gold("valid").exists() and data.gold(split).exists() and attends(run)):
        return None
    choice = select_on_validation(run, data)
    found = score_alignments(align_pairs(run, pairs, choice.settings), read_gold(data, split))
    return RowAlignment(**found._asdict(), chosen=str(choice.settings))
