import numpy as np
import pytest
import torch

from regard.models.series.recurrent import SimpleRnn, SimpleRnnSettings
from regard.types import Series

B, S, F, D, STEPS = 3, 5, 2, 4, 7
KINDS = ("none", "linear", "softmax")
every_kind = pytest.mark.parametrize("kind", KINDS)


def build(kind, *, features=F, width=D, steps=STEPS):
    torch.manual_seed(1)
    settings = SimpleRnnSettings(attention=kind, width=width, time_steps=steps)
    model = SimpleRnn(settings, features).double().eval()
    with torch.no_grad():  # biases of zero would hide mistakes
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def series(*lengths):
    mask = torch.arange(S, 0, -1) <= torch.tensor(lengths)[:, None]
    return Series(torch.randn(len(lengths), S, F, dtype=torch.float64), mask)


@pytest.mark.parametrize(("kind", "count"), [("none", 11), ("linear", 33), ("softmax", 33)])
def test_the_lectures_parameters(kind, count):
    model = build(kind, features=1, width=2, steps=20)
    assert sum(parameter.numel() for parameter in model.parameters()) == count


@every_kind
def test_it_is_the_formula(kind):
    model, inputs = build(kind), series(S, 3, 1)
    found = model(inputs).detach().numpy()
    p = {name: x.detach().numpy() for name, x in model.named_parameters()}
    for row in range(B):
        h, states = np.zeros(D), []
        for x in inputs.values[row][inputs.mask[row]].numpy():
            h = np.tanh(p["input.weight"] @ x + p["recurrent.weight"] @ h + p["input.bias"])
            states.append(h)
        n = len(states)
        if kind == "none":
            c = states[-1]
        elif kind == "linear":
            alpha = p["score.weight"][STEPS - n :]
            c = sum(a * h for a, h in zip(alpha, states, strict=True)) + p["context_bias"]
        else:
            b = p["score.bias"][STEPS - n :]
            e = np.exp(np.tanh(np.array(states) @ p["score.weight"] + b))
            c = (e / e.sum()) @ np.array(states)
        np.testing.assert_allclose(found[row], p["output.weight"] @ c + p["output.bias"])


@every_kind
def test_padding_changes_nothing(kind):
    model, inputs = build(kind), series(S, 3, 1)
    values, mask = inputs.tensors()
    noise = Series(torch.where(mask[..., None], values, 1e3), mask)
    torch.testing.assert_close(model(noise), model(inputs), rtol=0, atol=0)
    shorter = Series(values[1:, 2:], mask[1:, 2:])
    torch.testing.assert_close(model(shorter), model(inputs)[1:])


@pytest.mark.parametrize(("kind", "normalized"), [("linear", False), ("softmax", True)])
def test_a_hook_sees_the_weights_and_whether_they_are_normalized(kind, normalized):
    model, inputs, seen = build(kind), series(S, 3, 1), []

    def record(site, weights, /):
        seen.append((site, weights))
        return weights

    torch.testing.assert_close(model(inputs, hook=record), model(inputs), rtol=0, atol=0)
    [(site, weights)] = seen
    assert site.normalized is normalized
    assert weights.shape == (B, 1, 1, S)
    assert not weights[:, 0, 0][~inputs.mask].any()
    if normalized:
        torch.testing.assert_close(weights.sum(-1), torch.ones(B, 1, 1).double())
    else:
        assert (weights < 0).any()


def test_a_series_longer_than_its_weights_is_an_error():
    with pytest.raises(ValueError, match="weights for 3 positions, got 5 keys"):
        build("linear", steps=3)(series(5))
