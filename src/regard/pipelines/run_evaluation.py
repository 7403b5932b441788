"""The evaluation of a finished run: scores on held-out pairs, perplexity, a model card."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from regard.alignment.run_alignment import (
    has_cross_attention,
    measure_by_gold,
    read_selection_examples,
)
from regard.atomic_io import write_atomic
from regard.batching.collate import collate
from regard.corpora.corpus import Pair, SplitName
from regard.corpora.pair_texts import PreparedData
from regard.decoding.constraints.length_limits import TruncationReport, report_truncation
from regard.decoding.settings import DecodingSettings
from regard.errors import RunError
from regard.evaluation.bleu_tokenizer import TokenizerChoice
from regard.evaluation.metrics import REPORTED_METRICS
from regard.evaluation.perplexity import Perplexity, perplexity
from regard.evaluation.scores import Score, ScoreSettings, score
from regard.iterate import chunked
from regard.json_files import dump_json
from regard.recipes.open_run import Run, open_run
from regard.recipes.run_folder import RunFolder, load_data
from regard.tasks.families.answer import Answer
from regard.tasks.names import CHAT, TRANSLATION
from regard.tasks.translation.card import write_card
from regard.tasks.translation.chat.evaluation import ChatScores, group_answers, score_chatbot
from regard.tasks.translation.chat.pipeline import Chatbot
from regard.tasks.translation.pipeline import Translator
from regard.training.checkpoints import Progress

PERPLEXITY_BATCH = 64  # pairs whose perplexity is measured together


class HeldOutScores(NamedTuple):
    """The scores of a model on held-out sentences."""

    split: SplitName
    sentences: int
    scores: list[Score]
    cut: TruncationReport  # references and translations beyond the length limits

    @property
    def title(self) -> str:
        return f"{self.sentences:,} held-out sentences ({self.split})"

    @property
    def numbers(self) -> dict[str, float]:
        """The scores by name."""
        return {one.name: one.value for one in self.scores}

    def to_json(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "sentences": self.sentences,
            **{one.name: {"value": one.value, "signature": one.signature} for one in self.scores},
            "references_beyond_limit": self.cut.references,
            "answers_cut": self.cut.answers,
        }


def finish_run(folder: RunFolder, progress: Progress, device: torch.device) -> HeldOutScores:
    """Score the run on held-out pairs and write a card; select an alignment if there is gold."""
    run = open_run(folder.path, device=device)
    data = load_data(folder)
    score_run = HELD_OUT_SCORES[run.recipe.task]
    scores = score_run(run, data)
    write_atomic(folder.scores, dump_json(scores.to_json(), indent=1).encode())
    write_card(run, data, progress, scores.scores, split=scores.split)
    if data.gold("valid").exists() and has_cross_attention(run):
        measure_by_gold(run, *read_selection_examples(data))
    return scores


def score_held_out(
    translator: Translator, data: PreparedData, tokenize: TokenizerChoice = "auto"
) -> HeldOutScores:
    """The scores of a run on its held-out pairs."""
    split = data.held_out()
    pairs = list(data.read(split))
    answers = translator.translate([pair.source for pair in pairs], split=False)
    language, references = data.languages[1], [pair.target for pair in pairs]
    settings = ScoreSettings(metrics=REPORTED_METRICS, tokenize=tokenize, language=language)
    scores = score([answer.text for answer in answers], references, settings)
    cut = count_truncated_answers(translator, answers, references)
    return HeldOutScores(split, len(pairs), scores, cut)


def score_chat_run(run: Run, data: PreparedData) -> HeldOutScores:
    """The scores of a chatbot on its held-out dialogues."""
    chatbot, split = Chatbot([run]), data.held_out()
    pairs = list(data.read(split))
    found = score_chat(chatbot, pairs, data, tokenize=run.recipe.evaluation.tokenize)
    cut = count_truncated_answers(chatbot, found.found, [some[0] for some in found.references])
    return HeldOutScores(split, len(found.found), found.scores(), cut)


def score_chat(
    chatbot: Chatbot,
    pairs: Sequence[Pair],
    data: PreparedData,
    *,
    settings: DecodingSettings | None = None,
    tokenize: TokenizerChoice = "auto",
) -> ChatScores:
    """The scores of a chatbot on histories and answers; its training answers are in `data`."""
    sources, references = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return score_chatbot(
        chatbot,
        group_answers(pairs),
        (pair.target for pair in data.read("train")),
        translator_perplexity(chatbot, sources, references),
        settings=settings,
        tokenize=tokenize,
    )


HELD_OUT_SCORES: Mapping[str, Callable[[Run, PreparedData], HeldOutScores]] = {
    TRANSLATION: lambda run, data: score_held_out(
        Translator([run]), data, run.recipe.evaluation.tokenize
    ),
    CHAT: score_chat_run,
}
"""How a run is scored, by its task."""


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
