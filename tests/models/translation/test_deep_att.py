import pytest
import torch
from pydantic import ValidationError

from regard.layers.deep_lstm import FAST_FORWARD_DIVISOR
from regard.models.translation.deep_att import DeepAtt, DeepAttSettings
from regard.types import Padded, Site

B, S, T, D, E, A, M = 2, 5, 4, 8, 6, 7, 9
SOURCE = Padded(torch.arange(B * S).view(B, S) % 11, torch.arange(S) < torch.tensor([[5], [3]]))
TARGET = Padded(torch.arange(B * T).view(B, T) % 13, torch.ones(B, T, dtype=torch.bool))


def tiny(**given):
    torch.manual_seed(0)
    sizes = {"width": D, "embedding": E, "alignment": A, "memory": M}
    layers = {"encoder_layers": 3, "decoder_layers": 4}
    model = DeepAtt(DeepAttSettings(**(sizes | layers | given)), 11, 13).double().eval()
    with torch.no_grad():
        for p in model.parameters():
            p.normal_(std=0.5)
    return model


def recur(layer, f, hidden):
    """An LSTM's state after f (4 D), which is what its input comes to."""
    enter, forget, candidate, out = (f + layer.weight_hh @ hidden[0] + layer.bias).chunk(4)
    c = forget.sigmoid() * hidden[1] + enter.sigmoid() * candidate.tanh()
    return out.sigmoid() * c.tanh(), c


def half(f):
    enter, _, candidate, _ = f.chunk(4)
    return torch.cat([candidate, enter]) / FAST_FORWARD_DIVISOR


def zero_state():
    return (torch.zeros(D, dtype=torch.float64),) * 2


def read(column, words, *, backward):
    """[f; h] (5 D) of the top layer at each of `words` (S, E)."""
    given = list(words)
    for layer in column.layers:
        f, h, hidden = [layer.weight_ih @ x for x in given], [None] * len(given), zero_state()
        for s in reversed(range(len(given))) if backward else range(len(given)):
            hidden = recur(layer, f[s], hidden)
            h[s] = hidden[0]
        given = [torch.cat([half(a), b]) for a, b in zip(f, h, strict=True)]
        backward = not backward
    return torch.stack(
        [torch.cat([a / FAST_FORWARD_DIVISOR, b]) for a, b in zip(f, h, strict=True)]
    )


def test_encoder_is_the_papers_equations():
    model = tiny()
    found = model.encode(SOURCE).states
    assert found.shape == (B, S, M)
    for b, length in enumerate((5, 3)):
        words = model.source.weight[SOURCE.ids[b, :length]]
        forward, backward = model.columns
        read_out = [read(forward, words, backward=False), read(backward, words, backward=True)]
        wanted = torch.cat(read_out, -1) @ model.compress.weight.T
        torch.testing.assert_close(found[b, :length], wanted)


def test_decoder_is_the_papers_equations():
    model = tiny()
    found, memory = model(SOURCE, TARGET), model.encode(SOURCE).states
    score, layers = model.bottom.score, [model.bottom.layer, *model.decoder.layers]
    for b, length in enumerate((5, 3)):
        m, hidden = memory[b, :length], [zero_state() for _ in layers]  # (S, M)
        for t in range(T):
            energies = score.energy(torch.tanh(score.query(hidden[0][0]) + score.key(m)))
            a = energies[:, 0].softmax(0) @ m
            x = torch.cat([model.target.weight[TARGET.ids[b, t]], a])
            for number, layer in enumerate(layers):
                f = layer.weight_ih @ x
                hidden[number] = recur(layer, f, hidden[number])
                x = torch.cat([half(f), hidden[number][0]])
            torch.testing.assert_close(found[b, t], model.output(hidden[-1][0]))


def test_attends_once_a_step():
    seen = []
    tiny()(SOURCE, TARGET, hook=lambda site, w: seen.append(site) or w)
    assert seen == [Site("cross", 0, t) for t in range(T)]


def test_the_papers_memory_is_a_quarter_of_what_is_read():
    settings = DeepAttSettings(
        encoder_layers=9, decoder_layers=7, width=512, embedding=256, memory=1280
    )
    with torch.device("meta"):
        model = DeepAtt(settings, 11, 13)
    assert model.compress.weight.shape == (1280, 5120)
    assert [len(column.layers) for column in model.columns] == [9, 9]
    assert 1 + len(model.decoder.layers) == 7


def test_needs_a_layer_above_the_bottom():
    with pytest.raises(ValidationError, match="greater than or equal to 2"):
        DeepAttSettings(decoder_layers=1)
