import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError

from regard.models.translation.moe import Moe, MoeSettings
from regard.recipes.recipe_files import load_recipe
from regard.types import Padded, Site

B, S, T, D, A, HIDDEN, E = 2, 5, 4, 8, 7, 6, 4
SOURCE = Padded(torch.arange(B * S).view(B, S) % 11, torch.arange(S) < torch.tensor([[5], [3]]))
TARGET = Padded(torch.arange(B * T).view(B, T) % 13, torch.arange(T) < torch.tensor([[2], [4]]))


def tiny(**given):
    torch.manual_seed(0)
    sizes = {"width": D, "alignment": A, "expert_width": HIDDEN, "experts": {"count": E}}
    model = Moe(MoeSettings(**(sizes | given)), 11, 13).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.5)
    return model


def run(layer, x):
    """All outputs of `layer` for `x` (T, inputs)."""
    return layer(x[None], layer.zero_state(1)).outputs[0]


def mix(experts, x):
    """x + sigmoid(Σ G(x) E(x)) for rows `x` (T, D), one by one."""
    choice, rows = experts.gate(x), []
    for row, chosen, weights in zip(x, choice.experts.tolist(), choice.weights, strict=True):
        answers = [F.relu(row @ experts.inner[e]) @ experts.outer[e] for e in chosen]
        mixed = sum(w * answer for w, answer in zip(weights, answers, strict=True))
        rows.append(row + torch.sigmoid(mixed))
    return torch.stack(rows)


@pytest.mark.parametrize("units", [None, 10])
def test_encoder_is_the_papers(units):
    model = tiny(units=units)
    memory = model.encode(SOURCE)
    for b, length in enumerate((5, 3)):
        x = model.source.weight[SOURCE.ids[b, :length]]  # (S, D)
        both = model.both_ways.layers[0]
        x = x + torch.cat(
            [run(both.forward_layer, x), run(both.backward_layer, x.flip(0)).flip(0)], -1
        )
        second, third = model.encoder
        x = x + run(second, x)
        x = mix(model.encoder_experts, x)
        x = x + run(third, x)
        torch.testing.assert_close(memory.states[b, :length], x)
    assert [one.site for one in memory.routings] == [Site("encoder", 1)]


def test_decoder_is_the_papers():
    model = tiny()
    found, memory = model(SOURCE, TARGET), model.encode(SOURCE).states
    score, (top,) = model.bottom.score, model.decoder
    for b, (length, real) in enumerate(((5, 2), (3, 4))):
        keys = memory[b, :length]  # (S, D)
        x, hidden = model.target.weight[TARGET.ids[b, :real]], model.bottom.layer.zero_state(1)
        outputs = []
        for row in x:
            products = torch.tanh(score.query(hidden[0])) * torch.tanh(score.key(keys))  # (S, A)
            context = (products @ score.energy.weight[0]).softmax(0) @ keys  # (D,)
            hidden = model.bottom.layer.step(torch.cat([row, context])[None], hidden)
            outputs.append(row + hidden[0][0])
        x = mix(model.decoder_experts, torch.stack(outputs))  # (T, D)
        x = x + run(top, x)
        torch.testing.assert_close(found[b, :real], model.output(x))
    *_, routing = model.decode(TARGET, model.encode(SOURCE)).routings
    assert routing.site == Site("decoder", 0)
    torch.testing.assert_close(routing.shares.sum(), torch.tensor(1.0))


def test_padding_is_not_counted():
    model = tiny()
    longer = Padded(F.pad(SOURCE.ids, (0, 3)), F.pad(SOURCE.mask, (0, 3)))
    (one,), (other,) = (model.encode(source).routings for source in (SOURCE, longer))
    torch.testing.assert_close(one[1:], other[1:])


def count(settings, size):
    with torch.device("meta"):
        return sum(p.numel() for p in Moe(settings, size, size).parameters())


def test_the_papers_models_have_their_parameters():
    settings = load_recipe("moe-paper").model
    assert f"{count(settings, 32_000) / 1e9:.1f}B" == "8.7B"  # as its tables say
    many = {"expert_width": 2048, "experts": {"count": 2048, "top_k": 4}}
    flat = MoeSettings(**(settings.model_dump() | many))
    assert f"{count(flat, 32_000) / 1e9:.1f}B" == "8.7B"  # without the second gate of a hierarchy
    few = MoeSettings(**(settings.model_dump() | many | {"experts": {"count": 32, "top_k": 4}}))
    experts_alone = 2 * (2048 - 32) * (2 * 512 * 2048 + 2 * 512)
    assert count(flat, 32_000) - count(few, 32_000) == experts_alone


def test_parameters_of_all_parts():
    v, d, u, a = 50, 12, 20, 7
    settings = MoeSettings(width=d, units=u, alignment=a, expert_width=9, experts={"count": 3})

    def lstm(inputs, width, units):
        return 4 * units * (inputs + width + 1) + units * width

    assert count(settings, v) == (
        2 * v * d  # token vectors
        + 2 * lstm(d, d // 2, u // 2)  # both ways
        + 3 * lstm(d, d, u)  # the encoder's other two, the decoder's top
        + lstm(2 * d, d, u)  # the decoder's bottom
        + 2 * d * a + a  # its attention
        + 2 * 3 * (2 * d * 9 + 2 * d)  # experts and gates
        + d * v + v  # the output layer
    )  # fmt: skip


def test_both_ways_need_even_sizes():
    with pytest.raises(ValidationError, match="a bidirectional encoder needs an even width, got 7"):
        MoeSettings(width=7)
    with pytest.raises(
        ValidationError, match="a bidirectional encoder needs an even number of units"
    ):
        MoeSettings(width=8, units=9)
