"""The rows of a comparison of translators: they share a corpus, and are timed one by one."""

from collections.abc import Mapping
from typing import ClassVar

from regard.comparison.plan import ComparisonFolder, ComparisonPlan
from regard.comparison.rows import ResultFigure, RowContext, Rows
from regard.errors import RegardError
from regard.recipes.run_folder import load_data
from regard.tasks.contracts import Notify
from regard.tasks.translation.comparison.measurements import (
    MeasuredRow,
    measure_row,
    measure_untimed,
)
from regard.tasks.translation.comparison.plots import plot_by_length, plot_quality_cost
from regard.tasks.translation.comparison.results import ComparisonResults, aggregate_results
from regard.tasks.translation.comparison.shared_corpus import (
    apply_budget,
    copy_shared_corpus,
    corpus_run,
    data_run,
    prepare_shared_corpus,
)
from regard.tasks.translation.measurements.held_out import resolve_tokenizer
from regard.tasks.translation.recipe import TranslationRecipe


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
