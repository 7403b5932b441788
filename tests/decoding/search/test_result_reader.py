import torch

from regard.decoding.search.n_best import NBest
from regard.decoding.search.result_reader import ResultReader
from regard.decoding.tracing.observer import SearchObserver

NEG_INF = float("-inf")


def found(*words):
    """Two places for each sentence, of which the second is free."""
    tokens = torch.tensor([[[2, word], [2, 0]] for word in words])
    scores = torch.tensor([[-1.0, NEG_INF]] * len(words))
    return NBest(scores, scores, tokens, torch.ones_like(scores, dtype=torch.bool))


class Told(SearchObserver):
    def __init__(self):
        self.answers = []

    def on_result(self, number, answers, /):
        self.answers.append((number, [one.tokens for one in answers]))


def test_answers_come_back_in_the_order_of_the_sentences():
    answers = ResultReader(1, None, range(3))
    answers.collect([2], found(7))
    answers.collect([0, 1], found(5, 6))
    assert [[one.tokens for one in best] for best in answers.all()] == [[(5,)], [(6,)], [(7,)]]


def test_an_observer_is_told_at_once_and_by_the_numbers_it_knows():
    told = Told()
    answers = ResultReader(2, told, [30, 31])
    answers.collect([1], found(6))
    assert told.answers == [(31, [(6,)])]
    answers.collect([0], found(5))
    assert told.answers == [(31, [(6,)]), (30, [(5,)])]
