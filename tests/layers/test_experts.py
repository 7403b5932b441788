import math

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from regard.layers.experts import MIN_NOISE_STD, Experts, ExpertsSettings, Gate, squared_variation
from regard.types import Site

B, T, D, HIDDEN, E, CHOSEN = 3, 7, 6, 5, 4, 2
SITE = Site("encoder", 1)


def settings(**given):
    return ExpertsSettings(**({"count": E, "top_k": CHOSEN} | given))


def experts(*, hidden=HIDDEN, activation="relu", **given):
    """Experts with different weights, and a gate that does not begin at zero."""
    torch.manual_seed(0)
    layer = Experts(settings(**given), D, hidden, activation=activation).double().eval()
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_()
    return layer


def batch():
    torch.manual_seed(1)
    mask = torch.arange(T) < torch.tensor([7, 2, 4])[:, None]
    return torch.randn(B, T, D, dtype=torch.float64), mask


def one_by_one(layer, x, gate_output):
    """What the formula says, token by token and expert by expert: (N, D)."""
    rows = []
    for token, chosen, weights in zip(
        x, gate_output.experts.tolist(), gate_output.weights, strict=True
    ):
        answers = [F.relu(token @ layer.inner[e]) @ layer.outer[e] for e in chosen]
        rows.append(sum(w * answer for w, answer in zip(weights, answers, strict=True)))
    return torch.stack(rows)


def test_each_token_goes_through_its_experts_and_padding_through_none():
    layer, (x, mask) = experts(), batch()
    found = layer(x, mask, site=SITE).outputs
    want = one_by_one(layer, x[mask], layer.gate(x[mask]))
    torch.testing.assert_close(found[mask], want)
    assert (found[~mask] == 0).all()
    step = layer(x, None, site=Site("decoder", 1, 0))
    torch.testing.assert_close(step.outputs[mask], want)
    assert step.routings == ()


@pytest.mark.parametrize("expert_index", ["mixed", "all on one", "none", "few"])
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_blocks_equal_shares(expert_index, activation):
    layer, rows = experts(activation=activation), 3 if expert_index == "few" else 200
    gate_output = {
        "mixed": torch.randint(E + 1, (rows,)),
        "all on one": torch.full((rows,), 2),
        "none": torch.full((rows,), E),
        "few": torch.tensor([3, E, 0]),
    }[expert_index]
    x = torch.randn(rows, D, dtype=torch.float64)
    push = torch.randn(rows, D, dtype=torch.float64)
    seen = []
    for dispatch in (layer.dispatch_by_expert, layer.dispatch_in_blocks):
        given = x.clone().requires_grad_()
        answers = dispatch(given, gate_output)
        layer.zero_grad()
        (answers * push).sum().backward()
        seen.append((answers, given.grad, layer.inner.grad.clone(), layer.outer.grad.clone()))
    for one, other in zip(*seen, strict=True):
        torch.testing.assert_close(one, other)
    assert (seen[0][0][gate_output == E] == 0).all()
    assert (seen[0][0][gate_output < E] != 0).any(1).all()


def test_the_gate_is_a_softmax_over_the_largest():
    layer, (x, mask) = experts(), batch()
    gate_output = layer.gate(x[mask])
    for token, chosen, weights in zip(
        x[mask], gate_output.experts, gate_output.weights, strict=True
    ):
        logits = [(token @ w).item() for w in layer.gate.clean]
        best = sorted(range(E), key=lambda e: -logits[e])[:CHOSEN]
        assert chosen.tolist() == best
        total = sum(math.exp(logits[e]) for e in best)
        assert weights.tolist() == pytest.approx([math.exp(logits[e]) / total for e in best])
    assert (gate_output.selection_probs.sum(1) == CHOSEN).all()
    assert (gate_output.selection_probs.gather(1, gate_output.experts) == 1).all()


def test_noise_takes_part_in_training_alone():
    gate, (x, mask) = experts().gate, batch()
    quiet, loud = gate(x[mask]), gate.train()(x[mask])
    assert torch.equal(quiet.weights, gate.eval()(x[mask]).weights)
    assert not torch.equal(loud.weights, quiet.weights)
    gate = experts(noise=False, load_weight=0).gate
    assert torch.equal(gate.train()(x[mask]).weights, gate.eval()(x[mask]).weights)
    assert gate.noise is None


def test_chances_follow_appendix_a():
    gate, (x, mask) = experts().gate.train(), batch()
    x = x[mask]
    torch.manual_seed(7)
    gate_output = gate(x)
    torch.manual_seed(7)
    clean, spread = x @ gate.clean.T, torch.log1p((x @ gate.noise.T).exp()) + MIN_NOISE_STD
    noisy = clean + torch.randn_like(clean) * spread
    for n in range(len(x)):
        for i in range(E):
            others = sorted((noisy[n, e].item() for e in range(E) if e != i), reverse=True)
            z = (clean[n, i] - others[CHOSEN - 1]) / spread[n, i]
            want = 0.5 * (1 + math.erf(z.item() / math.sqrt(2)))
            assert gate_output.selection_probs[n, i].item() == pytest.approx(want)


def test_chances_are_how_often_an_expert_is_chosen():
    gate = Gate(D, E, 1, noise=True)
    assert not any(p.abs().sum() for p in gate.parameters())  # as they begin: all are alike
    gate_output = gate.train()(torch.randn(4000, D))
    often = torch.bincount(gate_output.experts.flatten(), minlength=E) / 4000
    torch.testing.assert_close(often, torch.full((E,), 1 / E), atol=0.05, rtol=0)
    torch.testing.assert_close(gate_output.selection_probs.mean(0), often, atol=0.05, rtol=0)


def test_uneven_use_costs_what_the_paper_says():
    layer, (x, mask) = experts(importance_weight=0.3, load_weight=0.7).train(), batch()
    torch.manual_seed(7)
    (routing,) = layer(x, mask, site=SITE).routings
    torch.manual_seed(7)
    gate_output = layer.gate(x.flatten(0, 1))
    importance, load, tokens_per_expert = [0.0] * E, [0.0] * E, [0] * E
    for n in mask.flatten().nonzero()[:, 0]:
        for e, weight in zip(
            gate_output.experts[n].tolist(), gate_output.weights[n].tolist(), strict=True
        ):
            importance[e] += weight
            tokens_per_expert[e] += 1
        for e in range(E):
            load[e] += gate_output.selection_probs[n, e].item()

    def variation(values):
        mean = sum(values) / E
        return sum((v - mean) ** 2 for v in values) / E / mean**2

    want = 0.3 * variation(importance) + 0.7 * variation(load)
    assert routing.balance_loss.item() == pytest.approx(want)
    assert routing.shares.tolist() == pytest.approx(
        [n / sum(tokens_per_expert) for n in tokens_per_expert]
    )
    assert routing.site == SITE
    gradients = torch.autograd.grad(routing.balance_loss, list(layer.gate.parameters()))
    assert all(g.abs().max() > 0 for g in gradients)


def test_padding_costs_nothing_and_gets_no_gradient():
    layer, (x, mask) = experts().train(), batch()
    noisy = torch.where(mask[..., None], x, 100.0).requires_grad_()
    torch.manual_seed(7)
    one = layer(x, mask, site=SITE)
    torch.manual_seed(7)
    other = layer(noisy, mask, site=SITE)
    torch.testing.assert_close(one.outputs, other.outputs)
    torch.testing.assert_close(one.routings[0][1:], other.routings[0][1:])
    (other.outputs.sum() + other.routings[0].balance_loss).backward()
    assert (noisy.grad[~mask] == 0).all()
    assert (noisy.grad[mask] != 0).any()


def test_squared_variation():
    assert squared_variation(torch.tensor([3.0, 3.0, 3.0])) == 0
    assert squared_variation(torch.tensor([1.0, 3.0])) == 0.25
    assert squared_variation(torch.tensor([0.0, 0.0, 0.0, 8.0])) == 3.0  # all on one: E - 1


def test_autocast_chooses_the_same_experts():
    layer, (x, mask) = experts().float(), batch()
    x = x.float()
    want = layer(x, mask, site=SITE)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x, mask, site=SITE)
    assert found.outputs.dtype == torch.bfloat16
    assert torch.equal(found.routings[0].shares, want.routings[0].shares)
    torch.testing.assert_close(found.outputs.float(), want.outputs, atol=0.2, rtol=0.02)


def test_an_expert_of_the_paper_has_two_million_parameters():
    with torch.device("meta"):
        layer = Experts(ExpertsSettings(count=32, top_k=4), 512, 2048)
    assert layer.inner.numel() + layer.outer.numel() == 32 * (512 * 2048 + 2048 * 512)


def test_first_weights_are_those_of_experts_drawn_apart():
    layer = Experts(settings(), 300, 100, activation="swiglu")
    for matrix in (*layer.inner.chunk(2, dim=-1), layer.outer):
        assert matrix.std().item() == pytest.approx(math.sqrt(2 / 400), rel=0.02)


def test_settings_that_choose_nothing_or_do_nothing_are_refused():
    with pytest.raises(ValidationError, match=r"top_k must be less than count.*top_k 4 and count"):
        ExpertsSettings(count=4, top_k=4)
    with pytest.raises(ValidationError, match=r"top_k\n.*greater than or equal to 2"):
        ExpertsSettings(top_k=1)
    with pytest.raises(ValidationError, match=r"load_weight 0.01 has no effect without noise"):
        ExpertsSettings(noise=False)


def test_without_noise_the_gate_has_a_mind_from_the_start():
    torch.manual_seed(0)
    experts = Gate(D, E, CHOSEN, noise=False)(torch.randn(200, D)).experts
    assert (torch.bincount(experts.flatten(), minlength=E) > 20).all()


def test_a_gate_that_is_certain_has_finite_gradients():
    gate = Gate(D, E, CHOSEN, noise=True).train()
    with torch.no_grad():
        gate.clean.copy_(50 * torch.randn_like(gate.clean))
        gate.noise.fill_(-100.0)  # softplus of what it makes of ones is 0
    gate_output = gate(torch.ones(7, D))
    (gate_output.selection_probs.sum() + gate_output.weights.square().sum()).backward()
    assert gate.clean.grad.isfinite().all()
    assert gate.noise.grad.isfinite().all()
