"""The evaluation of a chatbot: its perplexity of people's answers, and how varied its own are.

It is compared with people, and with always giving the commonest answer of the training data.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from rich.markup import escape

from regard.corpora.corpus import UNDETERMINED, Pair
from regard.corpora.pair_texts import PreparedData
from regard.decoding.settings import DecodingSettings, search_settings
from regard.evaluation.bleu_tokenizer import TokenizerChoice, choose_tokenizer
from regard.evaluation.diversity import commonest, distinct
from regard.evaluation.metrics import MetricOptions, build_metric, word_tokenizer
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.scores import Comparison, Score, ScoreSettings, compare
from regard.recipes.open_run import Run
from regard.recipes.run_folder import RunFolder, load_data
from regard.tasks.contracts import Evaluation, ScoreTable
from regard.tasks.families.answer import Answer
from regard.tasks.translation.chat.pipeline import Chatbot, load
from regard.tasks.translation.measurements.evaluation import (
    PairScores,
    TranslationEvaluator,
    count_truncated_answers,
    describe_perplexity,
    read_eval_data,
    translator_perplexity,
)


class Prompt(NamedTuple):
    """A history, and what people answered."""

    history: str
    answers: tuple[str, ...]


class AnswerScores(NamedTuple):
    """The scores of answers of one origin, one answer to each history."""

    answers: str  # the name of their origin
    distinct_1: float  # different words, divided by all words
    distinct_2: float  # the same for pairs of neighbouring words
    bleu: float | None  # None: there are no other answers to compare them with
    words: float  # in an answer, on average


@dataclass(frozen=True, kw_only=True)
class ChatScores(Evaluation):
    """The scores of a chatbot, of people, and of always giving the same answer."""

    answers: Sequence[Answer]  # the chatbot's, one to each history
    references: Sequence[tuple[str, ...]]  # what BLEU compares them with
    perplexity: Perplexity  # of all answers by people
    rows: tuple[AnswerScores, ...]  # of the chatbot, of people, of the commonest answer
    bleu_signature: str
    distinct_signature: str

    def scores(self) -> list[Score]:
        """All numbers by name, each with how it was counted."""
        counted = f"per:token|tokens:{self.perplexity.num_tokens}"
        scores = [Score("perplexity", self.perplexity.value, counted)]
        for row in self.rows:
            of_row = (
                Score("distinct-1", row.distinct_1, self.distinct_signature),
                Score("distinct-2", row.distinct_2, self.distinct_signature),
                Score("BLEU", row.bleu, self.bleu_signature) if row.bleu is not None else None,
            )
            scores += [
                one._replace(name=f"{one.name}, {row.answers}") for one in of_row if one is not None
            ]
        return scores

    def to_json(self) -> dict[str, Any]:
        return {
            "prompts": len(self.answers),
            "perplexity": self.perplexity._asdict(),
            "answers": [row._asdict() for row in self.rows],
            "signatures": {"bleu": self.bleu_signature, "distinct": self.distinct_signature},
            **self.tests_json(),
        }

    def tables(self, name: str) -> Iterator[ScoreTable | str]:
        columns = ("distinct-1", "distinct-2", "BLEU", "words")
        rows = [
            (
                escape(row.answers),
                f"{row.distinct_1:.3f}",
                f"{row.distinct_2:.3f}",
                "–" if row.bleu is None else f"{row.bleu:.2f}",
                f"{row.words:.1f}",
            )
            for row in self.rows
        ]
        title = f"{name} on {len(self.answers):,} histories"
        yield ScoreTable(title, ("answers", *columns), columns, rows)
        yield describe_perplexity(self.perplexity, "per token of people's answers")


class ChatEvaluator(TranslationEvaluator):
    """Measures a chatbot on histories with one answer or more."""

    uses: ClassVar[str] = "source reference beam tokenize output"

    @classmethod
    def score_run(cls, run: Run, data: PreparedData) -> PairScores:
        chatbot, split = Chatbot([run]), data.held_out()
        pairs = list(data.read(split))
        known = (pair.target for pair in data.read("train"))
        chat = score_chat(chatbot, pairs, known, tokenize=run.recipe.evaluation.tokenize)
        first = [references[0] for references in chat.references]
        cut = count_truncated_answers(chatbot, chat.answers, first)
        return PairScores.of(split, chat.scores(), cut, len(pairs))

    def evaluate(self) -> Evaluation:
        o = self.options
        chatbot = load(o.model, weights=o.weights, adapter=o.adapter, device=o.device)
        texts = read_eval_data(o.model, o.source, o.reference, self.tell)
        chat = score_chat(
            chatbot,
            [Pair(*sides) for sides in zip(*texts, strict=True)],
            (pair.target for pair in load_data(RunFolder(Path(o.model))).read("train")),
            settings=search_settings(chatbot.settings, beam=o.beam),
            tokenize=o.tokenize,
        )
        if o.against is None:
            return chat
        other = load(o.against, device=o.device)
        answers = other.translate(
            [answer.source for answer in chat.answers],
            search_settings(other.settings, beam=o.beam),
        )
        return replace(chat, comparisons=tuple(compare_answers(answers, chat, o.tokenize)))


def group_answers(pairs: Iterable[Pair]) -> list[Prompt]:
    """The histories with all their answers; pairs of one history are neighbours."""
    return [
        Prompt(history, tuple(pair.target for pair in some))
        for history, some in groupby(pairs, attrgetter("source"))
    ]


def score_chat(
    chatbot: Chatbot,
    pairs: Sequence[Pair],
    training_answers: Iterable[str],
    *,
    settings: DecodingSettings | None = None,
    tokenize: TokenizerChoice = "auto",
) -> ChatScores:
    """The scores of a chatbot on histories and people's answers.

    If people gave several answers to each history, the first is scored as theirs, and the others
    are the references of BLEU. distinct-n falls with the number of words, so every row counts one
    answer to each history.
    """
    perplexity = translator_perplexity(chatbot, *zip(*pairs, strict=True))
    prompts = group_answers(pairs)
    several = all(len(prompt.answers) > 1 for prompt in prompts)
    references = [prompt.answers[several:] for prompt in prompts]
    by_people = [prompt.answers[0] for prompt in prompts]
    if tokenize == "auto":
        tokenize = choose_tokenizer(UNDETERMINED, by_people).name
    bleu = build_metric("bleu", MetricOptions(tokenize, warn=False))
    words = word_tokenizer(MetricOptions(tokenize, lowercase=True))
    answers = chatbot.translate([prompt.history for prompt in prompts], settings)
    usual = commonest(training_answers)

    def score_texts(name: str, texts: Sequence[str], *, comparable: bool = True) -> AnswerScores:
        return AnswerScores(
            name,
            distinct(texts, 1, words),
            distinct(texts, 2, words),
            bleu.value(bleu.count(texts, references).sum(0)) if comparable else None,
            sum(len(words(text)) for text in texts) / len(texts),
        )

    rows = (
        score_texts("its own", [answer.text for answer in answers]),
        score_texts("people's", by_people, comparable=several),
        score_texts(f"always {usual!r}", [usual] * len(prompts)),
    )
    counted = f"tok:{tokenize}|case:lc|answers:{len(prompts)}"
    bleu_signature = bleu.signature(0, 0)
    return ChatScores(
        split="held-out dialogues",
        numbers={"perplexity": perplexity.value},
        notes=(f"BLEU: {bleu_signature}; distinct: {counted}",),
        texts=tuple(answer.text for answer in answers),
        answers=answers,
        references=references,
        perplexity=perplexity,
        rows=rows,
        bleu_signature=bleu_signature,
        distinct_signature=counted,
    )


def compare_answers(
    others: Sequence[Answer], chat: ChatScores, tokenize: TokenizerChoice = "auto"
) -> list[Comparison]:
    """A paired test of the answers of a chatbot against those of another to the same histories."""
    settings = ScoreSettings(metrics=("bleu",), tokenize=tokenize, warn=False)
    theirs, ours = ([answer.text for answer in answers] for answers in (others, chat.answers))
    return compare(theirs, ours, chat.references, settings)
