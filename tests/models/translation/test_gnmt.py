import pytest
import torch
from pydantic import ValidationError

from regard.models.translation.gnmt import Gnmt, GnmtSettings
from regard.types import Padded, Site

B, S, T, D, E, A, L = 2, 5, 4, 8, 6, 7, 4
SOURCE = Padded(torch.arange(B * S).view(B, S) % 11, torch.arange(S) < torch.tensor([[5], [3]]))
TARGET = Padded(torch.arange(B * T).view(B, T) % 13, torch.ones(B, T, dtype=torch.bool))


def tiny(**given):
    torch.manual_seed(0)
    sizes = {"encoder_layers": L, "decoder_layers": L, "width": D, "embedding": E, "alignment": A}
    model = Gnmt(GnmtSettings(**(sizes | given)), 11, 13).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.5)
    return model


def run(layer, x):
    """All outputs of `layer` for `x` (T, inputs)."""
    return layer(x[None], layer.zero_state(1)).outputs[0]


def test_encoder_is_the_papers_equations():
    model = tiny()
    found = model.encode(SOURCE).states
    assert found.shape == (B, S, D)
    for b, length in enumerate((5, 3)):
        x = model.source.weight[SOURCE.ids[b, :length]]
        both = model.both_ways.layers[0]
        x = torch.cat(
            [run(both.forward_layer, x), run(both.backward_layer, x.flip(0)).flip(0)], -1
        )  # (S, 2 D)
        second, *residual = model.encoder.layers
        x = run(second, x)
        for layer in residual:
            x = run(layer, x) + x
        torch.testing.assert_close(found[b, :length], x)


def test_decoder_is_the_papers_equations():
    model = tiny()
    found, memory = model(SOURCE, TARGET), model.encode(SOURCE).states
    score = model.bottom.score
    second, *residual = model.decoder.layers
    for b, length in enumerate((5, 3)):
        x = memory[b, :length]  # (S, D)
        bottom, *above = (layer.zero_state(1) for layer in [model.bottom.layer, second, *residual])
        for t in range(T):
            energies = score.energy(torch.tanh(score.query(bottom[0]) + score.key(x)))
            a = energies.T.softmax(-1) @ x  # (1, D)
            y = model.target.weight[TARGET.ids[b, t]][None]
            bottom = model.bottom.layer.step(torch.cat([y, a], -1), bottom)
            above[0] = second.step(torch.cat([bottom[0], a], -1), above[0])
            z = above[0][0]
            for number, layer in enumerate(residual, start=1):
                above[number] = layer.step(torch.cat([z, a], -1), above[number])
                z = above[number][0] + z
            torch.testing.assert_close(found[b, t], model.output(z)[0])


def test_attends_once_a_step():
    seen = []
    tiny()(SOURCE, TARGET, hook=lambda site, w: seen.append(site) or w)
    assert seen == [Site("cross", 0, t) for t in range(T)]


def test_counts_what_the_papers_sizes_come_to():
    settings = GnmtSettings(
        encoder_layers=8, decoder_layers=8, width=1024, embedding=1024, alignment=1024
    )
    with torch.device("meta"):
        model = Gnmt(settings, 32_000, 32_000)
    assert sum(p.numel() for p in model.parameters()) == 280_858_880


@pytest.mark.parametrize("side", ["encoder_layers", "decoder_layers"])
def test_needs_a_layer_above_the_bottom(side):
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        GnmtSettings(**{side: 1})
