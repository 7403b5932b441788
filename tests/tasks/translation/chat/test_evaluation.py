import pytest

from regard.corpora.corpus import Pair
from regard.evaluation.perplexity import Perplexity
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.translation.chat import evaluation as module
from regard.tasks.translation.chat.evaluation import Prompt, group_answers, score_chat

MEASURED = Perplexity(2.0, 9, 0.69)


class Parrot:
    """Repeats the history."""

    def translate(self, texts, settings):
        return [Answer(text, (Candidate(text, 0.0, 0.0),)) for text in texts]


@pytest.fixture(autouse=True)
def measured(monkeypatch):
    """The perplexity of people's answers, which no model is needed for."""
    monkeypatch.setattr(module, "translator_perplexity", lambda *_: MEASURED)


def test_neighbouring_pairs_of_one_history_are_its_answers():
    pairs = [Pair("a", "1"), Pair("a", "2"), Pair("b", "1"), Pair("a", "3")]
    assert group_answers(pairs) == [
        Prompt("a", ("1", "2")),
        Prompt("b", ("1",)),
        Prompt("a", ("3",)),
    ]


def test_people_are_compared_with_each_other_and_all_with_the_same_answers():
    answers = {
        "yes I like tea": ("no", "yes I like tea"),
        "yes I like rain": ("no no", "well", "yes I like rain"),
    }
    pairs = [Pair(history, text) for history, some in answers.items() for text in some]
    found = score_chat(Parrot(), pairs, ["no", "yes", "no"], tokenize="none")
    own, people, always = found.rows
    assert (own.distinct_1, own.distinct_2, own.words) == (5 / 8, 4 / 6, 4.0)
    assert own.bleu == pytest.approx(100)
    assert (people.distinct_1, people.distinct_2) == (1 / 3, 1.0)
    assert people.bleu < 10
    assert always.answers == "always 'no'"
    assert always.distinct_1 == 1 / 2
    names = [score.name for score in found.scores()]
    assert names[:4] == [
        "perplexity",
        "distinct-1, its own",
        "distinct-2, its own",
        "BLEU, its own",
    ]
    assert "nrefs:var" in found.bleu_signature
    assert found.distinct_signature == "tok:none|case:lc|answers:2"


def test_of_one_answer_each_people_have_no_bleu():
    found = score_chat(Parrot(), [Pair("a b c d", "a b c d")], ["a"])
    assert found.rows[0].bleu == pytest.approx(100)
    assert found.rows[1].bleu is None
    assert "BLEU, people's" not in [score.name for score in found.scores()]
