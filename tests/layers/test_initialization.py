import torch
from torch import nn

from regard.layers.initialization import LSTM_OUTPUT_RMS, init_output_layer, xavier_linears
from regard.layers.recurrent import RecurrentLayer

B, T, D, V = 50, 20, 64, 300


def test_xavier_reaches_every_linear_layer():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(D, V), nn.Sequential(nn.Linear(V, D, bias=False)))
    xavier_linears(model)
    assert model[0].bias.abs().max() == 0
    for layer in (model[0], model[1][0]):
        torch.testing.assert_close(layer.weight.var().item(), 2 / (D + V), rtol=0.05, atol=0)


def test_logits_above_a_fresh_lstm_have_unit_variance():
    torch.manual_seed(0)
    layer, output = RecurrentLayer("lstm", D, D), nn.Linear(D, V)
    init_output_layer(output)
    h = layer(torch.randn(B, T, D), layer.zero_state(B)).outputs
    assert 0.7 < h.square().mean().sqrt() / LSTM_OUTPUT_RMS < 1.4
    assert 0.7 < output(h).std() < 1.4
