"""The scores of translations of held-out pairs, and the perplexity of their references."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

from rich.markup import escape

from regard.alignment.dictionary import read_unknown_option
from regard.alignment.run_alignment import (
    has_cross_attention,
    measure_by_gold,
    read_selection_examples,
)
from regard.batching.collate import collate
from regard.corpora.corpus import UNDETERMINED
from regard.corpora.pair_texts import PreparedData
from regard.corpora.readers.pair_files import read_lines
from regard.decoding.constraints.length_limits import TruncationReport, report_truncation
from regard.decoding.settings import search_settings
from regard.errors import RunError, SettingsError
from regard.evaluation.bleu_tokenizer import BleuTokenizer, TokenizerChoice, choose_tokenizer
from regard.evaluation.metrics import REPORTED_METRICS, check_available, check_lines
from regard.evaluation.perplexity import Perplexity, perplexity
from regard.evaluation.scores import (
    LengthGroup,
    Score,
    ScoreSettings,
    compare,
    score,
    score_by_length,
)
from regard.iterate import chunked
from regard.recipes.evaluator import Evaluator
from regard.recipes.open_run import Run
from regard.recipes.run_folder import RunFolder, load_data
from regard.tasks.contracts import Evaluation, Notify, ScoreTable
from regard.tasks.families.answer import Answer
from regard.tasks.translation.needed import require_text_task
from regard.tasks.translation.pipeline import Translator, load

PERPLEXITY_BATCH = 64  # pairs whose perplexity is measured together


@dataclass(frozen=True, kw_only=True)
class PairScores(Evaluation):
    """The scores of what a model wrote for held-out pairs."""

    scores: tuple[Score, ...]
    sentences: int
    pairs: int  # more than the sentences, if some have several references
    cut: TruncationReport  # references and answers beyond the length limits

    @classmethod
    def of(
        cls, split: str, scores: Sequence[Score], cut: TruncationReport, pairs: int, **others: Any
    ) -> Self:
        return cls(
            split=split,
            numbers={one.name: one.value for one in scores},
            notes=(str(cut),) if str(cut) else (),
            scores=tuple(scores),
            sentences=cut.pairs,
            pairs=pairs,
            cut=cut,
            **others,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "sentences": self.sentences,
            **{one.name: {"value": one.value, "signature": one.signature} for one in self.scores},
            "references_beyond_limit": self.cut.references,
            "answers_cut": self.cut.answers,
        }

    def tables(self, name: str) -> Iterator[ScoreTable | str]:
        yield self.score_table(f"{self.sentences:,} held-out sentences ({self.split})")

    def score_table(self, title: str) -> ScoreTable:
        """The scores, with their intervals and signatures."""
        rows = []
        for one in self.scores:
            span = f"{one.interval.low:.2f} … {one.interval.high:.2f}" if one.interval else ""
            rows.append((one.name, f"{one.value:.2f}", span, f"[dim]{escape(one.signature)}[/dim]"))
        return ScoreTable(title, ("score", "value", "95% interval", "signature"), ("value",), rows)

    def card_lines(self) -> Iterator[str]:
        yield f"| score on {self.pairs:,} {self.split} sentences | value | signature |"
        yield "|---|---:|---|"
        for one in self.scores:
            signature = one.signature.replace("|", "\\|")  # it would end the cell, even in code
            yield f"| {one.name} | {one.value:.2f} | `{signature}` |"
        yield ""


@dataclass(frozen=True, kw_only=True)
class TranslationScores(PairScores):
    """The same, and what else `regard evaluate` shows of a translator."""

    perplexity: Perplexity | None  # None: several models translate together
    groups: Sequence[LengthGroup]  # scores by the length of the source

    def to_json(self) -> dict[str, Any]:
        return {
            "sentences": self.sentences,
            "references_beyond_limit": self.cut.references,
            "answers_cut": self.cut.answers,
            "scores": [one._asdict() for one in self.scores],
            "perplexity": self.perplexity._asdict() if self.perplexity else None,
            "by_length": [
                {
                    "shortest": group.shortest,
                    "longest": group.longest,
                    "sentences": group.count,
                    **{one.name: one.value for one in group.scores},
                }
                for group in self.groups
            ],
            "against": [vars(test) for test in self.comparisons],
        }

    def tables(self, name: str) -> Iterator[ScoreTable | str]:
        yield self.score_table(f"{name} on {self.sentences:,} sentences")
        if self.perplexity is not None:
            yield describe_perplexity(self.perplexity, "per token")
        if not self.groups:
            return
        numbers = ("sentences", *(one.name for one in self.groups[0].scores))
        rows = [
            (
                f"{one.shortest}–{one.longest}",
                f"{one.count:,}",
                *(f"{x.value:.2f}" for x in one.scores),
            )
            for one in self.groups
        ]
        yield ScoreTable("by length of the source", ("words", *numbers), numbers, rows)


def describe_perplexity(measured: Perplexity, unit: str) -> str:
    """A line for the terminal."""
    return f"perplexity  {measured.value:.3f}  [dim]{unit}, {measured.num_tokens:,} tokens[/]"


class TranslationEvaluator(Evaluator):
    """Measures the translations of one model or of several."""

    uses: ClassVar[str] = (
        "source reference ensemble beam unknown tokenize lowercase by_length output engine "
        "precision"
    )

    @classmethod
    def after_training(cls, run: Run) -> Evaluation:
        """The scores on held-out pairs; an alignment is selected and saved if there is gold."""
        data = load_data(run.folder)
        scores = cls.score_run(run, data)
        if data.gold("valid").exists() and has_cross_attention(run):
            measure_by_gold(run, *read_selection_examples(data))
        return scores

    @classmethod
    def score_run(cls, run: Run, data: PreparedData) -> PairScores:
        """The scores of a run on its held-out pairs."""
        return score_held_out(Translator([run]), data, run.recipe.evaluation.tokenize)

    def evaluate(self) -> Evaluation:
        o = self.options
        sources, references = read_eval_data(o.model, o.source, o.reference, self.tell)
        settings = ScoreSettings(
            metrics=REPORTED_METRICS,
            tokenize=run_tokenizer(o.model, o.tokenize, references, self.tell),
            lowercase=o.lowercase,
        )
        dictionary = read_unknown_option(o.unknown) if o.unknown is not None else None
        translator = self._load(o.model, *o.ensemble, weights=o.weights, adapter=o.adapter)
        for remark in translator.remarks:
            self.tell(remark)

        def translate(translator: Translator) -> list[Answer]:
            search = search_settings(
                translator.settings, beam=o.beam, unknown=o.unknown is not None
            )
            return translator.translate(sources, search, unknown=dictionary, split=False)

        answers = translate(translator)
        texts = [answer.text for answer in answers]
        plain = settings.model_copy(update={"resamples": 0})
        scores = TranslationScores.of(
            o.source or "held-out pairs",
            score(texts, references, settings),
            count_truncated_answers(translator, answers, references),
            len(references),
            perplexity=None
            if o.ensemble
            else translator_perplexity(translator, sources, references),
            groups=score_by_length(sources, texts, references, plain) if o.by_length else (),
            texts=tuple(texts),
        )
        if scores.cut.references:
            scores = replace(
                scores, notes=(f"{scores.cut}; they are set in {o.model}/recipe.yaml",)
            )
        if o.against is None:
            return scores
        others = [answer.text for answer in translate(self._load(o.against))]
        return replace(scores, comparisons=tuple(compare(others, texts, references, settings)))

    def _load(self, *models: str, weights: str = "model", adapter: str | None = None) -> Translator:
        o = self.options
        return load(
            *models,
            weights=weights,
            adapter=adapter,
            device=o.device,
            engine=o.engine,
            precision=o.precision,
            tell=self.tell,
        )


def score_held_out(
    translator: Translator, data: PreparedData, tokenize: TokenizerChoice = "auto"
) -> PairScores:
    """The scores of a translator on the held-out pairs of a run."""
    split = data.held_out()
    pairs = list(data.read(split))
    answers = translator.translate([pair.source for pair in pairs], split=False)
    language, references = data.languages[1], [pair.target for pair in pairs]
    settings = ScoreSettings(metrics=REPORTED_METRICS, tokenize=tokenize, language=language)
    scores = score([answer.text for answer in answers], references, settings)
    cut = count_truncated_answers(translator, answers, references)
    return PairScores.of(split, scores, cut, len(pairs))


def count_truncated_answers(
    translator: Translator, answers: Sequence[Answer], references: Sequence[str]
) -> TruncationReport:
    """How many references and translations reach the length limits of the translator's search."""
    sources = translator.source_ids([answer.source for answer in answers])
    targets = translator.target.encode([text.strip() for text in references])
    return report_truncation(
        [len(ids) for ids in sources],
        [len(ids) for ids in targets],
        translator.settings.rules,
        sum(answer.cut_short for answer in answers),
    )


def translator_perplexity(
    translator: Translator, sources: Sequence[str], references: Sequence[str]
) -> Perplexity:
    """The perplexity of the translator's first model on the references."""
    run = translator.runs[0]
    targets = run.tokenizers.target.encode([text.strip() for text in references])
    ids = zip(translator.source_ids(sources), targets, strict=True)
    ordered = sorted(ids, key=lambda pair: max(map(len, pair)))
    chunks = chunked(ordered, PERPLEXITY_BATCH)
    measured = perplexity(run.model, (collate(*zip(*chunk, strict=True)) for chunk in chunks))
    if not math.isfinite(measured.loss):
        raise RunError(
            f"{run.folder.path}: the model's loss on these pairs is not a number: its weights are "
            "damaged, or its training diverged"
        )
    return measured


class EvalData(NamedTuple):
    sources: list[str]
    references: list[str]


def read_eval_data(
    model: str, source: str | None, reference: str | None, tell: Notify, limit: int | None = None
) -> EvalData:
    """The first sentences of the files given, or of the run's test split; by default all."""
    if (source is None) != (reference is None):
        raise SettingsError("--source and --reference must be given together")
    if source is not None and reference is not None:
        sources, references = (
            list(read_lines(source, limit="examples")),
            list(read_lines(reference, limit="examples")),
        )
        check_lines(source=sources, reference=references)
        return EvalData(sources[:limit], references[:limit])
    data = load_data(RunFolder(Path(model)))
    pairs = list(data.read_by_default(data.held_out(), tell))[:limit]
    return EvalData([pair.source for pair in pairs], [pair.target for pair in pairs])


def read_sources(model: str, source: str | None, tell: Notify) -> list[str]:
    """The sentences of a file, or the sources of the run's test split."""
    return (
        read_eval_data(model, None, None, tell).sources
        if source is None
        else list(read_lines(source, limit="examples"))
    )


def run_tokenizer(
    model: str, tokenize: TokenizerChoice, references: Sequence[str], tell: Notify
) -> BleuTokenizer:
    """The tokenizer to score a run with: the one given, the run's own, or its language's."""
    folder = RunFolder(Path(model))
    if tokenize == "auto":
        tokenize = require_text_task(folder.load_recipe(), model).evaluation.tokenize
    try:
        language = load_data(folder).languages[1] if tokenize == "auto" else UNDETERMINED
    except RunError:  # a run translates without its data
        language = UNDETERMINED
    return resolve_tokenizer(tokenize, language, references, tell)


def resolve_tokenizer(
    tokenize: TokenizerChoice, language: str, references: Sequence[str], tell: Notify
) -> BleuTokenizer:
    """The tokenizer given, or for `auto` that of the language or the references' script."""
    if tokenize != "auto":
        check_available(tokenize)  # raises an error before anything is translated
        return tokenize
    name, why = choose_tokenizer(language, references)
    if why:
        tell(f"BLEU and TER are counted with tok:{name}, chosen by {why}")
    return name
