"""The evaluation of a chatbot: likelihood of people's answers, and how varied its own are."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from regard.corpora.corpus import Pair
from regard.decoding.settings import DecodingSettings
from regard.evaluation.bleu_tokenizer import BleuTokenizer, choose_tokenizer
from regard.evaluation.diversity import commonest, distinct
from regard.evaluation.metrics import MetricOptions, multi_reference_bleu, word_tokenizer
from regard.evaluation.perplexity import Perplexity
from regard.evaluation.scores import Score
from regard.pipelines.chatbot import Chatbot


class Prompt(NamedTuple):
    """A history, and what people answered."""

    history: str
    answers: tuple[str, ...]


class AnswerScores(NamedTuple):
    """The scores of some answers to the same histories."""

    name: str  # whose answers they are
    distinct_1: float
    distinct_2: float
    bleu: float | None  # None: there is nothing to compare them with
    words: float  # of an answer, on average


class ChatScores(NamedTuple):
    """How a chatbot does beside people and beside saying always the same."""

    prompts: int
    answers: list[str]  # the chatbot's
    perplexity: Perplexity  # of all of people's answers
    rows: tuple[AnswerScores, ...]  # of the chatbot, of people, of the commonest answer
    signatures: dict[str, str]  # how numbers were counted, by their names

    def scores(self) -> list[Score]:
        """All numbers, each with its name."""
        found = [Score("perplexity", self.perplexity.value, self.signatures["perplexity"])]
        for row in self.rows:
            numbers = {"distinct-1": row.distinct_1, "distinct-2": row.distinct_2, "BLEU": row.bleu}
            found += [
                Score(f"{name}, {row.name}", value, self.signatures[name])
                for name, value in numbers.items()
                if value is not None
            ]
        return found


def group_answers(pairs: Iterable[Pair]) -> list[Prompt]:
    """The histories with all their answers: neighbouring pairs of one history belong together."""
    return [
        Prompt(history, tuple(pair.target for pair in some))
        for history, some in groupby(pairs, itemgetter(0))
    ]


def score_chatbot(
    chatbot: Chatbot,
    prompts: Sequence[Prompt],
    training_answers: Iterable[str],
    perplexity: Perplexity,
    settings: DecodingSettings | None = None,
    tokenize: BleuTokenizer | None = None,
) -> ChatScores:
    """The scores of a chatbot's answers to some histories, beside its `perplexity` on people's.

    Of several answers by people the first is scored as theirs, and those of all are compared with
    the others. distinct-n of equally many answers are compared: one to each history.
    """
    several = all(len(prompt.answers) > 1 for prompt in prompts)
    references = [prompt.answers[several:] for prompt in prompts]
    if tokenize is None:
        tokenize = choose_tokenizer("und", [one for some in references for one in some]).name
    options = MetricOptions(tokenize, warn=False)
    found = chatbot.translate([prompt.history for prompt in prompts], settings)
    answers = [answer.text for answer in found]
    usual = commonest(training_answers)
    words = word_tokenizer(MetricOptions(tokenize, lowercase=True))
    named = {
        "its answers": answers,
        "people's": [prompt.answers[0] for prompt in prompts],
        f"always {usual!r}": [usual] * len(prompts),
    }
    rows = []
    signatures = {}
    for name, texts in named.items():
        bleu, signature = multi_reference_bleu(texts, references, options)
        signatures["BLEU"] = signature
        comparable = several or texts is not named["people's"]
        rows.append(
            AnswerScores(
                name,
                distinct(texts, 1, words),
                distinct(texts, 2, words),
                bleu if comparable else None,
                sum(len(words(text)) for text in texts) / len(texts),
            )
        )
    counted = f"tok:{tokenize}|case:lc|answers:{len(prompts)}"
    signatures |= {"distinct-1": counted, "distinct-2": counted}
    signatures["perplexity"] = f"per:token|tokens:{perplexity.num_tokens}"
    return ChatScores(len(prompts), answers, perplexity, tuple(rows), signatures)
