"""The rows of a comparison of translators: they share a corpus, and are timed one by one."""

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar

from regard.alignment.run_alignment import (
    align_pairs,
    has_cross_attention,
    measure_by_gold,
    read_gold,
    read_selection_examples,
)
from regard.atomic_io import write_atomic
from regard.comparison.measurements import RowScore, this_machine, today
from regard.comparison.plan import ComparisonFolder, ComparisonPlan
from regard.comparison.rows import ResultFigure, RowContext, Rows
from regard.decoding.settings import search_settings
from regard.errors import DamagedError, RegardError
from regard.evaluation.alignment_error import score_alignments
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.scores import Score, score
from regard.json_files import read_json
from regard.manifest import check_file
from regard.recipes.open_run import open_run
from regard.recipes.run_folder import count_parameters, load_data
from regard.tasks.contracts import Notify
from regard.tasks.translation.comparison.flops import flops_per_token
from regard.tasks.translation.comparison.plots import plot_by_length, plot_quality_cost
from regard.tasks.translation.comparison.results import (
    SCORE_SETTINGS,
    ComparisonResults,
    MeasuredRow,
    ReferencePerplexity,
    RowAlignment,
    UntimedMeasurements,
    aggregate_results,
)
from regard.tasks.translation.comparison.shared_corpus import (
    apply_budget,
    copy_shared_corpus,
    corpus_run,
    data_run,
    prepare_shared_corpus,
    time_row_steps,
)
from regard.tasks.translation.measurements.evaluation import (
    resolve_tokenizer,
    translator_perplexity,
)
from regard.tasks.translation.pipeline import Translator
from regard.tasks.translation.recipe import TranslationRecipe
from regard.tasks.translation.training_inputs import prepare
from regard.text.word_units import count_units
from regard.training.checkpoints import last_progress

WARMUP_SENTENCES = 64  # translated before the clock starts


class TranslatorRows(Rows):
    """Rows of translators."""

    record: ClassVar[type[MeasuredRow]] = MeasuredRow
    without_effect: ClassVar[str] = "against"
    timed: ClassVar[bool] = True
    takes_imported: ClassVar[bool] = True
    figures: ClassVar[Mapping[str, ResultFigure]] = {
        "by-length": ResultFigure("BLEU by the length of the source", plot_by_length),
        "quality-cost": ResultFigure("BLEU against the cost of training", plot_quality_cost),
    }

    def prepare(
        self, plan: ComparisonPlan, folder: ComparisonFolder, note: Notify
    ) -> ComparisonPlan:
        try:
            data = prepare_shared_corpus(plan, folder, note)
        except RegardError:
            folder.remove_if_empty()
            raise
        plan = plan.with_data(data.digest, folder.path)
        references = [pair.target for pair in data.read(data.held_out())]
        name = resolve_tokenizer(plan.tokenize, data.languages[1], references, note)
        return plan.model_copy(update={"tokenize": name})

    def recipe(self, row: RowContext) -> TranslationRecipe:
        recipe = apply_budget(row)
        copy_shared_corpus(row.entry, row.folder)
        return recipe

    def time(self, row: RowContext) -> None:
        apply_budget(row)

    def measure(self, row: RowContext, *, alone: bool) -> None:
        if alone:
            measure_row(row)
        else:
            measure_untimed(row)

    def results(self, plan: ComparisonPlan, folder: ComparisonFolder) -> ComparisonResults:
        first = min(plan.entries, key=lambda entry: entry.is_imported)
        run = data_run(first, plan, folder) if first.run else corpus_run(first, folder)
        return aggregate_results(plan, folder, load_data(run))


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
