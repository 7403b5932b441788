import math

import pytest
import torch
from torch import nn

from regard.batching.collate import collate
from regard.errors import CorpusError
from regard.evaluation import perplexity as evaluation
from regard.evaluation.perplexity import perplexity, sequence_log_probs
from regard.models.contracts import Generator
from regard.types import Features, Memory

V = 7
SOURCES = [[4, 5], [5], [6, 6, 4]]
TARGETS = [[5, 4, 6], [], [6]]


class Bigram(Generator):
    """Predicts from the last token alone; says whether it was asked in training mode."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(V, V)
        self.dropout = nn.Dropout(0.9)
        self.rows = 0

    def encode(self, source, *, hook=None):
        return Memory(torch.zeros(*source.ids.shape, 1), source.mask)

    def decode(self, target, memory, *, hook=None):
        return Features(self.dropout(self.table(target.ids)))

    def logits(self, features):
        self.rows += len(features)
        return features

    def start(self, memory):
        raise NotImplementedError

    def step(self, tokens, state, *, hook=None):
        raise NotImplementedError


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Bigram()


def by_hand(model):
    """Over the sentences one by one, in Python's numbers."""
    logp = model.table.weight.detach().double().log_softmax(-1)
    nats = [
        -logp[last, token].item()
        for target in TARGETS
        for last, token in zip([2, *target], [*target, 3], strict=True)
    ]
    return math.exp(sum(nats) / len(nats)), len(nats)


def test_equals_the_formula_whatever_the_batches(model):
    want, count = by_hand(model)
    one = perplexity(model, [collate(SOURCES, TARGETS)])
    three = perplexity(model, (collate([s], [t]) for s, t in zip(SOURCES, TARGETS, strict=True)))
    assert one.num_tokens == three.num_tokens == count == 7
    assert one.value == pytest.approx(want, rel=1e-6)
    assert three.value == pytest.approx(want, rel=1e-6)


def test_logits_are_made_for_some_tokens_at_a_time(model, monkeypatch):
    batch, made = collate(SOURCES, TARGETS), []
    whole = perplexity(model, [batch])
    monkeypatch.setattr(evaluation, "CHUNK_ROWS", 3)
    monkeypatch.setattr(Bigram, "logits", lambda _, features: made.append(features) or features)
    assert perplexity(model, [batch]) == whole
    assert list(map(len, made)) == [3, 3, 1]


def test_padding_never_reaches_the_output_layer(model):
    found = perplexity(model, [collate(SOURCES, TARGETS)])
    assert model.rows == found.num_tokens < 3 * 4


@pytest.mark.parametrize("training", [True, False])
def test_mode_is_restored_and_no_gradient_kept(model, training):
    model.train(training)
    perplexity(model, [collate(SOURCES, TARGETS)])
    assert model.training is model.dropout.training is training
    assert model.table.weight.grad is None


def test_mode_is_restored_after_an_error(model):
    model.train()
    with pytest.raises(IndexError):
        perplexity(model, [collate(SOURCES, [[V + 9], [], []])])
    assert model.training


def test_half_precision_is_computed_in_single(model):
    want, _ = by_hand(model.bfloat16())
    assert perplexity(model, [collate(SOURCES, TARGETS)]).value == pytest.approx(want, rel=1e-5)


def test_the_perplexity_of_a_hopeless_model_is_still_a_number(model):
    with torch.no_grad():
        model.table.weight.zero_()[:, 1] = 1e6
    found = perplexity(model, [collate(SOURCES, TARGETS)])
    assert found.value == math.exp(700)
    assert 700 < found.loss < math.inf


def test_a_broken_model_does_not_pass_for_a_bad_one(model):
    with torch.no_grad():
        model.table.weight.fill_(math.nan)
    assert math.isnan(perplexity(model, [collate(SOURCES, TARGETS)]).value)


def test_nothing_has_no_perplexity(model):
    with pytest.raises(CorpusError, match="at least one token to predict, found none"):
        perplexity(model, [])


def test_log_probabilities_of_targets_one_by_one(model):
    logp = model.table.weight.detach().double().log_softmax(-1)
    expected = [
        sum(
            logp[last, token].item() for last, token in zip([2, *target], [*target, 3], strict=True)
        )
        for target in TARGETS
    ]
    model.eval()
    for budget in (1, 7, 1000):
        found = sequence_log_probs(model, SOURCES, TARGETS, budget=budget)
        assert found == pytest.approx(expected, abs=1e-5)
    assert sequence_log_probs(model, [], [], budget=1) == []
