"""The evaluation of a chatbot: its perplexity of people's answers, and how varied its own are.

It is compared with people, and with always giving the commonest answer of the training data.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from regard.corpora.corpus import UNDETERMINED, Pair
from regard.decoding.settings import DecodingSettings
from regard.evaluation.bleu_tokenizer import TokenizerChoice, choose_tokenizer
from regard.evaluation.diversity import commonest, distinct
from regard.evaluation.metrics import MetricOptions, build_metric, word_tokenizer
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.scores import Comparison, Score, ScoreSettings, compare
from regard.tasks.families.answer import Answer
from regard.tasks.translation.chat.pipeline import Chatbot


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


class ChatScores(NamedTuple):
    """The scores of a chatbot, of people, and of always giving the same answer."""

    found: list[Answer]  # the chatbot's, one to each history
    references: list[tuple[str, ...]]  # what BLEU compares them with
    perplexity: Perplexity  # of all answers by people
    rows: tuple[AnswerScores, ...]  # of the chatbot, of people, of the commonest answer
    bleu_signature: str
    distinct_signature: str

    def scores(self) -> list[Score]:
        """All numbers by name, each with how it was counted."""
        counted = f"per:token|tokens:{self.perplexity.num_tokens}"
        scores = [Score("perplexity", self.perplexity.value, counted)]
        for row in self.rows:
            found = (
                Score("distinct-1", row.distinct_1, self.distinct_signature),
                Score("distinct-2", row.distinct_2, self.distinct_signature),
                Score("BLEU", row.bleu, self.bleu_signature) if row.bleu is not None else None,
            )
            scores += [
                one._replace(name=f"{one.name}, {row.answers}") for one in found if one is not None
            ]
        return scores

    def to_json(self) -> dict[str, Any]:
        return {
            "prompts": len(self.found),
            "perplexity": self.perplexity._asdict(),
            "answers": [row._asdict() for row in self.rows],
            "signatures": {"bleu": self.bleu_signature, "distinct": self.distinct_signature},
        }


def group_answers(pairs: Iterable[Pair]) -> list[Prompt]:
    """The histories with all their answers; pairs of one history are neighbours."""
    return [
        Prompt(history, tuple(pair.target for pair in some))
        for history, some in groupby(pairs, attrgetter("source"))
    ]


def score_chatbot(
    chatbot: Chatbot,
    prompts: Sequence[Prompt],
    training_answers: Iterable[str],
    perplexity: Perplexity,
    *,
    settings: DecodingSettings | None = None,
    tokenize: TokenizerChoice = "auto",
) -> ChatScores:
    """The scores of a chatbot's answers, with its `perplexity` of people's answers.

    If people gave several answers to each history, the first is scored as theirs, and the others
    are the references of BLEU. distinct-n falls with the number of words, so every row counts one
    answer to each history.
    """
    several = all(len(prompt.answers) > 1 for prompt in prompts)
    references = [prompt.answers[several:] for prompt in prompts]
    by_people = [prompt.answers[0] for prompt in prompts]
    if tokenize == "auto":
        tokenize = choose_tokenizer(UNDETERMINED, by_people).name
    bleu = build_metric("bleu", MetricOptions(tokenize, warn=False))
    words = word_tokenizer(MetricOptions(tokenize, lowercase=True))
    found = chatbot.translate([prompt.history for prompt in prompts], settings)
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
        score_texts("its own", [answer.text for answer in found]),
        score_texts("people's", by_people, comparable=several),
        score_texts(f"always {usual!r}", [usual] * len(prompts)),
    )
    counted = f"tok:{tokenize}|case:lc|answers:{len(prompts)}"
    return ChatScores(found, references, perplexity, rows, bleu.signature(0, 0), counted)


def compare_answers(
    others: Sequence[Answer], found: ChatScores, *, tokenize: TokenizerChoice = "auto"
) -> list[Comparison]:
    """A paired test of the answers of a chatbot against those of another to the same histories."""
    settings = ScoreSettings(metrics=("bleu",), tokenize=tokenize, warn=False)
    theirs, ours = ([answer.text for answer in answers] for answers in (others, found.found))
    return compare(theirs, ours, found.references, settings)
