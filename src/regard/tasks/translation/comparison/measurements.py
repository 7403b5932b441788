"""The measurements of a translator in a comparison, taken in the same way for every row."""

import math
import time
from contextlib import suppress

from regard.alignment.run_alignment import (
    align_pairs,
    has_cross_attention,
    measure_by_gold,
    read_gold,
    read_selection_examples,
)
from regard.atomic_io import write_atomic
from regard.comparison.measurements import (
    ComparedRow,
    Machine,
    RowScore,
    this_machine,
    today,
)
from regard.comparison.plan import SavedRecord
from regard.comparison.rows import RowContext
from regard.decoding.settings import search_settings
from regard.errors import DamagedError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.scores import Score, ScoreSettings, score
from regard.json_files import read_json
from regard.manifest import check_file
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import count_parameters, load_data
from regard.tasks.translation.comparison.flops import flops_per_token
from regard.tasks.translation.comparison.shared_corpus import data_run, time_row_steps
from regard.tasks.translation.measurements.evaluation import translator_perplexity
from regard.tasks.translation.pipeline import Translator
from regard.tasks.translation.training_inputs import prepare
from regard.text.word_units import count_units
from regard.training.checkpoints import last_progress

BLEU = "BLEU"
SCORE_SETTINGS = ScoreSettings(metrics=("bleu", "chrf"))
WARMUP_SENTENCES = 64  # translated before the clock starts


class ReferencePerplexity(SavedRecord):
    """Perplexity of the references, in three units."""

    per_token: float  # for each token of the model's vocabulary, EOS included
    per_word: float
    """For each word, or character in scripts without spaces: comparable across vocabularies."""
    bits_per_character: float


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


class MeasuredRow(UntimedMeasurements, ComparedRow):
    """A translator with one seed, measured."""

    label: str
    seed: int
    tokens_per_second: float  # of training steps, on a machine that was not shared
    scores: tuple[RowScore, ...]
    sentences_per_second: float
    """The speed of translating the test set, on a machine that was not shared."""
    machine: Machine
    date: str

    @property
    def main_score(self) -> RowScore:
        return self.scores[0]

    def value(self, name: str) -> float:
        return next(score.value for score in self.scores if score.name == name)


class _LoadedRow:
    """The trained run of a row, and the pairs that it is tested on."""

    def __init__(self, row: RowContext) -> None:
        self.data = load_data(data_run(row.entry, row.plan, row.folder))
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
        speed = time_row_steps(row, inputs).tokens_per_second
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
