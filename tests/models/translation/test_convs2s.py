import math

import pytest
import torch
import torch.nn.functional as F
from pydantic import ValidationError
from torch.nn.utils import parametrize

from regard.attention.positions import sinusoid
from regard.errors import TextError
from regard.models.translation.convs2s import ConvS2S, ConvS2SSettings
from regard.recipes.recipe_files import load_recipe
from regard.types import Padded, Site

B, S, T, D, E = 2, 7, 5, 8, 6
LENGTHS = (7, 4)
SOURCE = Padded(
    torch.arange(B * S).view(B, S) % 11, torch.arange(S) < torch.tensor(LENGTHS)[:, None]
)
TARGET = Padded(torch.arange(B * T).view(B, T) % 13, torch.ones(B, T, dtype=torch.bool))
SQRT_HALF = 0.5**0.5


def build(**given):
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "width": D, "embedding": E}
    return ConvS2S(ConvS2SSettings(**(sizes | given)), 11, 13)


def tiny(**given):
    torch.manual_seed(0)
    model = build(**given).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.5)
    return model


def convolve(layer, x, before, after):
    """The gated convolution of one sequence (T, D), zeros before and after it."""
    linear = layer.convolution.linear
    weight = linear.weight.unflatten(1, (before + after + 1, -1)).transpose(1, 2)
    value, gate = F.conv1d(F.pad(x.T, (before, after)), weight, linear.bias).T.chunk(2, -1)
    return value * gate.sigmoid()


@pytest.mark.parametrize("upper", [[], [[10, 3], [5, 1]]])
@pytest.mark.parametrize("normed", [True, False])
def test_is_the_papers_equations(upper, normed):
    model = tiny(upper=upper, weight_norm=normed)
    found = model(SOURCE, TARGET)
    for b, m in enumerate(LENGTHS):
        e = model.source.tokens.weight[SOURCE.ids[b, :m]] + model.source.positions.table.weight[:m]
        x = model.encoder_entry(e)
        for layer in model.encoder:
            around = layer.convolution.span // 2
            x = SQRT_HALF * (layer.past(x) + convolve(layer, x, around, around))
        z = model.encoder_exit(x)
        g = model.target.tokens.weight[TARGET.ids[b]] + model.target.positions.table.weight[:T]
        x = model.decoder_entry(g)
        for layer in model.decoder:
            h = convolve(layer, x, layer.convolution.span, 0)
            d = SQRT_HALF * (layer.query(h) + g)
            c = m * math.sqrt(1 / m) * (d @ z.T).softmax(-1) @ (SQRT_HALF * (z + e))
            x = SQRT_HALF * (layer.past(x) + SQRT_HALF * (h + layer.found(c)))
        torch.testing.assert_close(found[b], model.output(model.decoder_exit(x)))


def test_sinusoids_are_as_wide_as_learned_positions():
    model = tiny(positions="sinusoid")
    ids, places = torch.tensor([[3, 4]]), torch.arange(2)
    wanted = model.source.tokens.weight[3:5] + 0.1 * math.sqrt(2) * sinusoid(places, E)
    torch.testing.assert_close(model.source(ids, places)[0], wanted)


def recorded(model):
    seen = []
    model(SOURCE, TARGET, hook=lambda site, w: seen.append((site, w)) or w)
    return seen


def test_every_layer_attends():
    seen = recorded(tiny(decoder_layers=3, upper=[[9, 1]]))
    assert [site for site, _ in seen] == [Site("cross", layer) for layer in range(4)]
    assert {weights.shape for _, weights in seen} == {(B, 1, T, S)}


def test_gradients_into_the_encoder_are_shared_out_but_not_those_of_tokens():
    model = tiny(decoder_layers=4, weight_norm=False)
    torch.nn.init.zeros_(model.encoder_exit.weight)  # tokens are heard through the values alone
    memory = model.encode(SOURCE)
    real = SOURCE.mask[..., None]
    ((2 * memory.states + 3 * memory.extras[0]) * real).sum().backward()
    wanted, tokens = 0.0, torch.zeros(11, dtype=torch.float64)
    for b, m in enumerate(LENGTHS):
        wanted += (2 + 3 * SQRT_HALF * math.sqrt(m)) * m / 4
        tokens.index_add_(0, SOURCE.ids[b, :m], tokens.new_full((m,), 3 * SQRT_HALF * math.sqrt(m)))
    found = model.encoder_exit.bias.grad
    torch.testing.assert_close(found, torch.full_like(found, wanted))
    torch.testing.assert_close(model.source.tokens.weight.grad, tokens[:, None].expand(-1, E))


@pytest.mark.parametrize("normed", [True, False])
def test_first_weights_keep_the_variance(normed):
    torch.manual_seed(0)
    model = build(width=200, embedding=160, dropout=0.25, upper=[[120, 3]], weight_norm=normed)
    layer = model.decoder[0]
    for linear, wanted in [
        (layer.convolution.linear, math.sqrt(4 * 0.75 / 600)),
        (model.encoder[0].convolution.linear, math.sqrt(4 * 0.75 / 600)),
        (model.encoder_entry, math.sqrt(0.75 / 160)),
        (model.output, math.sqrt(0.75 / 160)),
        (layer.query, math.sqrt(1 / 200)),
        (layer.found, math.sqrt(1 / 160)),
        (model.decoder[-1].past, math.sqrt(1 / 200)),
        (model.decoder_exit, math.sqrt(1 / 120)),
    ]:
        assert linear.weight.std().item() == pytest.approx(wanted, rel=0.05)
        assert (linear.bias == 0).all()
        assert parametrize.is_parametrized(linear) == normed
    assert model.source.tokens.weight.std().item() == pytest.approx(0.1, rel=0.1)
    assert model.source.positions.table.weight.std().item() == pytest.approx(0.1, rel=0.1)


def test_the_state_does_not_grow():
    model = tiny(upper=[[9, 1]])
    state = model.start(model.encode(SOURCE)).reorder(torch.zeros(B, 3, dtype=torch.long))

    def size(state):
        return [x.shape for x in (*state.hidden_states, *state.memory, state.real)]

    wanted = size(state)
    assert wanted[:3] == [(B, 3, 2, D), (B, 3, 2, D), (B, 3, 0, D)]
    for column in TARGET.ids.split(1, dim=1):
        _, state = model.step(column.expand(-1, 3), state)
        assert size(state) == wanted


def count(source_size, target_size, **given):
    with torch.device("meta"):
        model = ConvS2S(ConvS2SSettings(weight_norm=False, **given), source_size, target_size)
    return sum(p.numel() for p in model.parameters())


def test_what_it_is_made_of():
    def linear(inputs, outputs):
        return (inputs + 1) * outputs

    d, e, v, limit = 512, 500, 1000, 99
    layer, attention = linear(3 * d, 2 * d), linear(d, e) + linear(e, d)
    ends = 2 * (linear(e, d) + linear(d, e)) + linear(e, v) + 2 * (v + limit) * e
    sizes = {"width": d, "embedding": e, "max_positions": limit}
    wanted = ends + 20 * layer + 10 * (layer + attention)
    assert count(v, v, encoder_layers=20, decoder_layers=10, **sizes) == wanted
    more = linear(d, 768) + linear(3 * d, 2 * 768)  # the way past, and the convolution
    more += linear(768, e) - linear(d, e)  # the way out
    cross = linear(768, e) + linear(e, 768)
    sizes |= {"encoder_layers": 20, "decoder_layers": 10, "upper": [[768, 3]]}
    assert count(v, v, **sizes) == wanted + 2 * more + cross


def test_the_papers_size():
    """The paper gives no count; its English-German model has one vocabulary of 40,000."""
    with torch.device("meta"):
        model = ConvS2S(load_recipe("convs2s-paper").model, 40_000, 40_000)
    outputs = [layer.convolution.linear.out_features // 2 for layer in model.decoder]
    assert outputs == [512] * 10 + [768] * 3 + [2048] * 2
    assert [layer.convolution.span for layer in model.encoder] == [2] * 13 + [0] * 2
    assert sum(p.numel() for p in model.parameters()) == 154_464_896


def test_learned_positions_have_an_end():
    model, complaint = tiny(max_positions=6), "7 tokens is longer than the 6 positions"
    assert model.max_length == 6
    with pytest.raises(TextError, match=complaint):
        model.encode(SOURCE)
    source = Padded(SOURCE.ids[:, :6], SOURCE.mask[:, :6])
    state = model.start(model.encode(source))
    for _ in range(6):
        _, state = model.step(TARGET.ids[:, :1], state)
    with pytest.raises(TextError, match=complaint):
        model.step(TARGET.ids[:, :1], state)
    assert tiny(positions="sinusoid").max_length is None


def test_resolved_settings_are_explicit_and_stay():
    settings = ConvS2SSettings(upper=[[768, 3]])
    assert settings.max_positions == 1024
    assert ConvS2SSettings(**settings.model_dump()) == settings
    assert ConvS2SSettings(max_positions=9).max_positions == 9
    waves = ConvS2SSettings(positions="sinusoid")
    assert waves.max_positions is None
    assert ConvS2SSettings(**waves.model_dump()) == waves


def test_a_bound_without_effect_is_refused():
    with pytest.raises(ValidationError, match="max_positions 9 has no effect on sinusoid"):
        ConvS2SSettings(positions="sinusoid", max_positions=9)


def test_a_bound_of_nothing_is_refused():
    with pytest.raises(ValidationError, match="max_positions"):
        ConvS2SSettings(max_positions=0)
