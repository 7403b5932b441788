import numpy as np
import pytest
import torch
from torch import nn

from loud import draw, loud
from regard.layers.recurrent import (
    RecurrentDecoder,
    RecurrentEncoder,
    RecurrentLayer,
    from_half,
    to_half,
)

B, T, K, E, D, L = 3, 5, 2, 7, 8, 2
CELLS = ["lstm", "gru"]
LENGTHS = [5, 3, 1]
MASK = torch.arange(T) < torch.tensor(LENGTHS)[:, None]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("cell", CELLS)
def test_step_is_the_formula(cell):
    layer, x = loud(RecurrentLayer(cell, E, D)), draw(B, E)
    old = tuple(draw(B, D) for _ in layer.zero_state(1))
    new = layer.step(x, old)
    w, u, b = (p.detach().numpy() for p in layer.parameters())
    into, back = x.numpy() @ w.T + b, old[0].numpy() @ u.T
    if cell == "lstm":
        i, f, g, o = np.split(into + back, 4, axis=1)
        c = sigmoid(f) * old[1].numpy() + sigmoid(i) * np.tanh(g)
        wanted = [sigmoid(o) * np.tanh(c), c]
    else:
        r, z = (sigmoid(x) for x in np.split((into + back)[:, : 2 * D], 2, axis=1))
        n = np.tanh(into[:, 2 * D :] + r * back[:, 2 * D :])
        wanted = [(1 - z) * n + z * old[0].numpy()]
    for found, want in zip(new, wanted, strict=True):
        np.testing.assert_allclose(found.detach(), want, atol=1e-12)


@pytest.mark.parametrize("state_bias", [False, True])
@pytest.mark.parametrize(("cell", "theirs"), [("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_equals_torch_whose_second_bias_is_zero_or_learned_as_ours(cell, theirs, state_bias):
    ours = loud(RecurrentLayer(cell, E, D, state_bias=state_bias))
    theirs = theirs(E, D, batch_first=True).double()
    second = () if state_bias else (torch.zeros_like(ours.bias),)
    weights = (*ours.parameters(), *second)
    with torch.no_grad():
        for theirs_one, ours_one in zip(theirs.parameters(), weights, strict=True):
            theirs_one.copy_(ours_one)
    x, hidden = draw(B, T, E), tuple(draw(B, D) for _ in ours.zero_state(1))
    found = ours(x, hidden)
    first = tuple(h[None] for h in hidden)
    outputs, last = theirs(x, first if cell == "lstm" else first[0])
    torch.testing.assert_close(found.outputs, outputs)
    for one, other in zip(found.hidden, last if cell == "lstm" else [last], strict=True):
        torch.testing.assert_close(one, other[0])


@pytest.mark.parametrize("cell", CELLS)
def test_one_bias_per_gate(cell):
    gates = {"lstm": 4, "gru": 3}[cell]
    layer = RecurrentLayer(cell, E, D)
    assert [name for name, _ in layer.named_parameters()] == ["weight_ih", "weight_hh", "bias"]
    assert sum(p.numel() for p in layer.parameters()) == gates * D * (E + D + 1)


def test_a_fresh_lstm_remembers():
    layer = RecurrentLayer("lstm", E, D)
    assert layer.bias.view(4, D).mean(1).tolist() == [0, 1, 0, 0]
    for gate in layer.weight_hh.chunk(4):
        torch.testing.assert_close(gate @ gate.T, torch.eye(D))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("first", [True, False], ids=["padding first", "padding last"])
@pytest.mark.parametrize("cell", CELLS)
def test_padding_holds_the_state(cell, first, dtype):
    layer, x = loud(RecurrentLayer(cell, E, D)).to(dtype), draw(B, T, E).to(dtype)
    mask = MASK.flip(1) if first else MASK
    found = layer(x, layer.zero_state(B), mask=mask)
    for row, length in enumerate(LENGTHS):
        wanted = layer(x[row : row + 1, mask[row]], layer.zero_state(1))
        torch.testing.assert_close(found.outputs[row, mask[row]], wanted.outputs[0])
        torch.testing.assert_close(found.hidden[-1][row], wanted.hidden[-1][0])
        assert wanted.outputs.shape[1] == length


@pytest.mark.parametrize("cell", CELLS)
def test_no_gradient_comes_through_padding(cell):
    layer, x = loud(RecurrentLayer(cell, E, D)), draw(B, T, E).requires_grad_()
    passed = layer(x, layer.zero_state(B), mask=MASK)
    (passed.outputs[MASK].sum() + passed.hidden[-1].sum()).backward()
    assert (x.grad[~MASK] == 0).all()
    assert (x.grad[MASK] != 0).all()


@pytest.mark.parametrize("cell", CELLS)
def test_decoder_steps_as_it_runs(cell):
    decoder = loud(RecurrentDecoder(cell, E, D, layers=L))
    x = draw(B, T, K, E)
    hidden = tuple(draw(B, K, D) for _ in range(L * (2 if cell == "lstm" else 1)))
    runs = [decoder(x[:, :, k], tuple(h[:, k] for h in hidden)) for k in range(K)]
    for t in range(T):
        top, hidden = decoder.step(x[:, t], hidden)
        torch.testing.assert_close(top, torch.stack([run[:, t] for run in runs], 1))


@pytest.mark.parametrize("reading", ["forward", "backward", "both"])
@pytest.mark.parametrize("cell", CELLS)
def test_encoder_reads_padded_rows_as_if_alone(cell, reading):
    encoder = loud(RecurrentEncoder(cell, E, D, layers=L, reading=reading))
    x = draw(B, T, E)
    found = encoder(x, MASK)
    assert found.outputs.shape == (B, T, D)
    assert [h.shape for h in found.hidden] == [(B, D)] * L * (2 if cell == "lstm" else 1)
    for row, length in enumerate(LENGTHS):
        alone = encoder(x[row : row + 1, :length], MASK[row : row + 1, :length])
        torch.testing.assert_close(found.outputs[row, :length], alone.outputs[0])
        for one, other in zip(found.hidden, alone.hidden, strict=True):
            torch.testing.assert_close(one[row], other[0])


@pytest.mark.parametrize("cell", CELLS)
def test_reading_backward_is_reading_a_reversed_source(cell):
    forwards = loud(RecurrentEncoder(cell, E, D, layers=L))
    back = RecurrentEncoder(cell, E, D, layers=L, reading="backward").double()
    back.load_state_dict(
        {
            name.replace("forward_layer", "backward_layer"): value
            for name, value in forwards.state_dict().items()
        }
    )
    x, all_real = draw(B, T, E), torch.ones(B, T, dtype=torch.bool)
    wanted, found = forwards(x.flip(1), all_real), back(x, all_real)
    torch.testing.assert_close(found.outputs.flip(1), wanted.outputs)
    for one, other in zip(found.hidden, wanted.hidden, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("cell", "theirs"), [("lstm", nn.LSTM), ("gru", nn.GRU)])
def test_reading_both_ways_equals_torch(cell, theirs):
    ours = loud(RecurrentEncoder(cell, E, 2 * D, layers=L, reading="both"))
    theirs = theirs(E, D, L, batch_first=True, bidirectional=True).double()
    with torch.no_grad():
        for number, layer in enumerate(ours.layers):
            for part, end in ((layer.forward_layer, ""), (layer.backward_layer, "_reverse")):
                getattr(theirs, f"weight_ih_l{number}{end}").copy_(part.weight_ih)
                getattr(theirs, f"weight_hh_l{number}{end}").copy_(part.weight_hh)
                getattr(theirs, f"bias_ih_l{number}{end}").copy_(part.bias)
                getattr(theirs, f"bias_hh_l{number}{end}").zero_()
    x = draw(B, T, E)
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor(LENGTHS), batch_first=True)
    outputs, last = theirs(packed)
    outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
    found = ours(x, MASK)
    torch.testing.assert_close(found.outputs[MASK], outputs[MASK])
    wanted = torch.cat(last if cell == "lstm" else [last])  # (kinds * L * 2, B, D)
    for number, h in enumerate(found.hidden):
        torch.testing.assert_close(h, torch.cat(tuple(wanted[2 * number : 2 * number + 2]), -1))


def test_dropout_is_between_layers_alone():
    one, two = (RecurrentDecoder("gru", E, D, layers=n, dropout=0.5) for n in (1, 2))
    x = torch.randn(B, T, E)
    zero_state = one.layers[0].zero_state(B)
    assert torch.equal(one(x, zero_state), one(x, zero_state))
    assert not torch.equal(two(x, zero_state * 2), two(x, zero_state * 2))


@pytest.mark.parametrize("cell", CELLS)
def test_keeps_its_precision_under_autocast(cell):
    layer, x = RecurrentLayer(cell, E, D), torch.randn(B, T, E)
    wanted = layer(x, layer.zero_state(B))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = layer(x, layer.zero_state(B))
        hidden = layer.zero_state(B)
        for t in range(T):
            hidden = layer.step(x[:, t], hidden)
    assert torch.equal(found.outputs, wanted.outputs)
    torch.testing.assert_close(hidden[0], wanted.outputs[:, -1])


def test_both_ways_need_an_even_width():
    with pytest.raises(ValueError, match="even width, got 5"):
        RecurrentEncoder("gru", E, 5, reading="both")
    with pytest.raises(ValueError, match="an even number of units, got 7"):
        RecurrentEncoder("lstm", E, 4, reading="both", units=7)


def test_a_projected_lstm_equals_torch_and_its_steps():
    layer = RecurrentLayer("lstm", 4, 3, units=7).double()
    theirs = torch.nn.LSTM(4, 7, proj_size=3, batch_first=True).double()
    with torch.no_grad():
        theirs.bias_hh_l0.zero_()
        for mine, name in [
            (layer.weight_ih, "weight_ih_l0"),
            (layer.weight_hh, "weight_hh_l0"),
            (layer.bias, "bias_ih_l0"),
            (layer.weight_hr, "weight_hr_l0"),
        ]:
            getattr(theirs, name).copy_(mine)
    x = torch.randn(2, 5, 4, dtype=torch.float64)
    wanted, (h, c) = theirs(x)
    found = layer(x, layer.zero_state(2))
    torch.testing.assert_close(found.outputs, wanted)
    torch.testing.assert_close(found.hidden, (h[0], c[0]))
    hidden = layer.zero_state(2)
    for column in x.unbind(1):
        hidden = layer.step(column, hidden)
    torch.testing.assert_close(hidden, (h[0], c[0]))


@pytest.mark.parametrize("backward", [False, True])
def test_a_projected_lstm_reads_no_padding(backward):
    layer = RecurrentLayer("lstm", 4, 3, units=7)
    x, mask = torch.randn(2, 5, 4), torch.arange(5) < torch.tensor([[5], [2]])
    whole = layer.read(x, mask, backward=backward)
    alone = layer.read(x[1:, :2], mask[1:, :2], backward=backward)
    torch.testing.assert_close(whole.outputs[1:, :2], alone.outputs)
    torch.testing.assert_close(whole.hidden[1][1:], alone.hidden[1])


def test_a_gru_is_not_projected():
    with pytest.raises(
        ValueError, match="only an LSTM can have units other than its width, got cell='gru'"
    ):
        RecurrentLayer("gru", 4, 3, units=7)


def test_gradients_too_small_for_float16_come_through_it():
    x = torch.ones(4, requires_grad=True)
    (y,) = from_half(*to_half(x))
    y.backward(torch.full((4,), 1e-8))
    assert torch.tensor(1e-8).half() == 0
    torch.testing.assert_close(x.grad, torch.full((4,), 1e-8), rtol=1e-3, atol=0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_an_lstm_in_float16_is_nearly_that_in_float32():
    plain, half = (RecurrentLayer("lstm", 64, 64, float16=fast).cuda() for fast in (False, True))
    half.load_state_dict(plain.state_dict())
    x = torch.randn(8, 30, 64, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        for layer in (plain, half):
            layer(x).outputs.mean().backward()
        torch.testing.assert_close(half(x).outputs, plain(x).outputs, rtol=0, atol=2e-3)
    for ours, theirs in zip(half.parameters(), plain.parameters(), strict=True):
        assert ours.grad.dtype == torch.float32
        assert (ours.grad - theirs.grad).norm() < 0.01 * theirs.grad.norm()
