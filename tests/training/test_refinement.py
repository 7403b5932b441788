import itertools
import math

import pytest
import torch
from pydantic import ValidationError

from regard.batching.collate import collate
from regard.models.build import build_model
from regard.models.translation.luong import LuongSettings
from regard.models.translation.moe import MoeSettings
from regard.models.translation.rnn import RnnSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.special_tokens import BOS, EOS, PAD
from regard.training.loss import batch_loss
from regard.training.refinement import RefinementSettings, refinement_loss, weight_samples
from regard.types import Hypothesis

A, B = 4, 5  # the only words beside UNK
SIZE = 6
SOURCES = [[4, 5, 4], [5], [4, 4]]
REFERENCES = [[A, B], [B], [A]]
LONGEST = 2
FAMILIES = {
    "rnn": RnnSettings(width=6, embedding=5),
    "luong": LuongSettings(layers=1, width=6, embedding=5),
    "transformer": TransformerSettings(
        encoder_layers=1,
        decoder_layers=1,
        width=8,
        heads=2,
        feed_forward=12,
        embeddings="separate",
        dropout=0.3,
    ),
    "moe": MoeSettings(width=8, alignment=5, expert_width=7),
}


def new_model(family="transformer"):
    torch.manual_seed(3)
    return build_model(FAMILIES[family], SIZE, SIZE, joint=False).double()


def said(*tokens, finished=True):
    return Hypothesis(tokens, score=0.0, log_probability=0.0, finished=finished)


def everything():
    """All answers of up to two steps."""
    words = [1, A, B]
    yield said()
    for word in words:
        yield said(word)
        for other in words:
            yield said(word, other, finished=False)


def overlap(reference, answers):
    """A reward that tells most answers apart."""
    return [
        sum(one == other for one, other in zip(reference, answer, strict=False)) / (1 + len(answer))
        for answer in answers
    ]


def fixed(samples):
    """A `SampleFn` that always draws the same samples."""
    return lambda model, memory, lengths: samples


def log_probability(model, source, one):
    """Of one answer, by steps: PAD and BOS cannot be said."""
    memory = model.encode(collate([source], [[]]).inputs)
    state, last, total = model.start(memory), BOS, torch.zeros((), dtype=torch.float64)
    for token in (*one.tokens, EOS) if one.finished else one.tokens:
        logits, state = model.step(torch.tensor([[last]]), state)
        logits = logits[0, 0].clone()
        logits[[PAD, BOS]] = -math.inf
        total, last = total + logits.log_softmax(-1)[token], token
    return total


def gradient(value, model):
    parameters = list(model.parameters())
    return torch.autograd.grad(value, parameters, retain_graph=True, materialize_grads=True)


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", ["rnn", "luong", "transformer"])
def test_the_estimate_is_unbiased(family):
    """Its mean over all pairs of samples, each as likely as it is, is the gradient itself."""
    model, source, reference = new_model(family).eval(), SOURCES[0], REFERENCES[0]
    answers = list(everything())
    log_probs = torch.stack([log_probability(model, source, one) for one in answers])
    assert log_probs.exp().sum().item() == pytest.approx(1, abs=1e-12)
    earned = overlap(reference, [one.tokens for one in answers])
    rewards = torch.tensor(earned, dtype=torch.float64)
    expected = gradient(-(log_probs.exp() * rewards).sum(), model)
    batch, likely = collate([source], [reference]), log_probs.detach().exp()
    found = [torch.zeros_like(p) for p in model.parameters()]
    for one, other in itertools.product(range(len(answers)), repeat=2):
        draw = fixed([[answers[one], answers[other]]])
        loss = refinement_loss(model, batch, draw=draw, reward=overlap, likelihood=0.0).loss
        for sum_, part in zip(found, gradient(loss, model), strict=True):
            sum_ += likely[one] * likely[other] * part
    assert_same(found, expected)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_answer_is_read_at_its_own_source(family):
    """The whole objective of a batch, from the log-probabilities of single answers by steps."""
    model = new_model(family).eval()
    drawn = [
        [said(A, B), said(), said(B, B, finished=False)],  # the reference is among the samples
        [said(A, A, finished=False), said(A), said(A)],  # drawn twice
        [said(A), said(A), said(A)],  # nothing to learn from
    ]
    batch = collate(SOURCES, REFERENCES)
    loss = refinement_loss(model, batch, draw=fixed(drawn), reward=overlap, likelihood=0.3)
    wanted, mean = torch.zeros((), dtype=torch.float64), 0.0
    for source, reference, samples in zip(SOURCES, REFERENCES, drawn, strict=True):
        rewards = overlap(reference, [one.tokens for one in samples])
        mean += sum(rewards) / 3
        for one, reward in zip(samples, rewards, strict=True):
            centred = (reward - sum(rewards) / 3) / 2
            wanted = wanted + centred * log_probability(model, source, one)
        wanted = wanted + 0.3 * log_probability(model, source, said(*reference))
    balance_loss = sum(one.balance_loss for one in loss.routings)
    assert (family == "moe") == bool(loss.routings)
    minus = -wanted + 0.3 * batch.num_labels * balance_loss
    assert_same(gradient(loss.loss, model), gradient(minus, model))
    value = 0.3 * (loss.nll + batch.num_labels * balance_loss) - mean
    torch.testing.assert_close(loss.loss, torch.as_tensor(value))


def test_surprise_is_that_of_the_references():
    model, batch = new_model().eval(), collate(SOURCES, REFERENCES)
    draw = fixed([[said(), said(A, B)]] * 3)
    loss = refinement_loss(model, batch, draw=draw, reward=overlap, likelihood=0.0)
    right = sum(
        log_probability(model, source, said(*reference))
        for source, reference in zip(SOURCES, REFERENCES, strict=True)
    )
    torch.testing.assert_close(-loss.nll, right)
    assert loss.nll < batch_loss(model, batch, 0.0).nll  # of which some is PAD and BOS


def test_nothing_is_dropped_out_and_the_model_stays_in_training():
    model, batch = new_model().train(), collate(SOURCES, REFERENCES)
    assert batch_loss(model, batch, 0.0).nll != batch_loss(model, batch, 0.0).nll
    modes = []

    def draw(model, memory, lengths):
        modes.append(model.training)
        assert lengths.tolist() == [3, 2, 2]  # with EOS
        assert memory.states.shape[:2] == (3, 4)
        return [[said(), said(A, B)]] * 3

    one, other = (
        refinement_loss(model, batch, draw=draw, reward=overlap, likelihood=1.0) for _ in range(2)
    )
    assert one.nll == other.nll
    assert modes == [False, False]
    assert model.training


def test_weights_by_hand():
    drawn = [[said(A), said(A), said(B, finished=False), said(A, B)], [said(A), said(A)] * 2]
    answers, reward = weight_samples(drawn, [(A, B), (B,)], overlap, 0.5)
    # A earns 1/2, B nothing, AB 2/3: in the mean 5/12
    assert [(one.sentence, one.tokens, one.finished) for one in answers] == [
        (0, (A, B), True),
        (1, (B,), True),
        (0, (A,), True),
        (0, (B,), False),
    ]
    assert [one.weight for one in answers] == pytest.approx(
        [0.5 + (2 / 3 - 5 / 12) / 3, 0.5, 2 * (1 / 2 - 5 / 12) / 3, -5 / 12 / 3]
    )
    assert reward == pytest.approx(5 / 12 + 0)


def test_one_sample_has_nothing_to_be_compared_with():
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        RefinementSettings(samples=1)
