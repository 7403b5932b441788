import torch

from regard.decoding.answers import Answers
from regard.decoding.finished import Finished
from regard.decoding.observe import Observe

NEVER = float("-inf")


def found(*words):
    """Two places for each sentence, of which the second is free."""
    tokens = torch.tensor([[[2, word], [2, 0]] for word in words])
    scores = torch.tensor([[-1.0, NEVER]] * len(words))
    return Finished(scores, scores, tokens, torch.ones_like(scores, dtype=torch.bool))


class Told(Observe):
    def __init__(self):
        self.answers = []

    def answered(self, number, answers, /):
        self.answers.append((number, [one.tokens for one in answers]))


def test_answers_come_back_in_the_order_of_the_sentences():
    answers = Answers(1, None, range(3))
    answers.take([2], found(7))
    answers.take([0, 1], found(5, 6))
    assert [[one.tokens for one in best] for best in answers.all()] == [[(5,)], [(6,)], [(7,)]]


def test_an_observer_is_told_at_once_and_by_the_numbers_it_knows():
    told = Told()
    answers = Answers(2, told, [30, 31])
    answers.take([1], found(6))
    assert told.answers == [(31, [(6,)])]
    answers.take([0], found(5))
    assert told.answers == [(31, [(6,)]), (30, [(5,)])]
