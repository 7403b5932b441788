import pytest
import torch

from loud import draw, loud
from regard.layers.deep_lstm import (
    FAST_FORWARD_DIVISOR,
    AttentionLstm,
    FastForwardColumn,
    FastForwardStack,
    ResidualStack,
    fast_forward,
)
from regard.layers.recurrent import RecurrentLayer
from regard.types import Site

B, T, K, E, A, D, L = 3, 5, 2, 6, 7, 8, 3
LENGTHS = [5, 3, 1]
MASK = torch.arange(T) < torch.tensor(LENGTHS)[:, None]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def run(layer, x):
    return layer(x, layer.zero_state(len(x))).outputs


@pytest.mark.parametrize("context", [0, A])
def test_residuals_begin_above_the_first_layer(context):
    stack = loud(ResidualStack(E, D, layers=L, context=context))
    x, a = draw(B, T, E), draw(B, T, context)
    found = stack(x, context=a if context else None).outputs
    x = run(stack.layers[0], torch.cat([x, a], -1))
    for layer in stack.layers[1:]:
        x = run(layer, torch.cat([x, a], -1)) + x
    torch.testing.assert_close(found, x)


def test_a_residual_stack_steps_as_it_runs():
    stack = loud(ResidualStack(E, D, layers=L, context=A))
    x, a = draw(B, T, K, E), draw(B, T, K, A)
    runs = torch.stack(
        [stack(x[:, :, k], context=a[:, :, k]).outputs for k in range(K)], 2
    )  # (B, T, K, D)
    hidden = (draw(B, K, D) * 0,) * (2 * L)
    for t in range(T):
        top, hidden = stack(x[:, t], hidden, a[:, t])
        torch.testing.assert_close(top, runs[:, t])


def test_dropout_does_not_fall_on_the_way_past_a_layer():
    stack = ResidualStack(E, D, layers=2, dropout=0.5)
    with torch.no_grad():
        stack.layers[1].bias[2 * D : 3 * D] = 0.0
        stack.layers[1].weight_ih[2 * D : 3 * D] = 0.0
        stack.layers[1].weight_hh[2 * D : 3 * D] = 0.0  # its candidate, so all of it, is zero
    x = torch.randn(B, T, E)
    torch.manual_seed(1)
    found = stack(x).outputs
    torch.manual_seed(1)
    assert torch.equal(found, run(stack.layers[0], stack.dropout(x)))


def test_what_is_handed_up_is_half_of_f_and_all_of_h():
    layer, x, h = loud(RecurrentLayer("lstm", E, D)), draw(B, T, E), draw(B, T, D)
    up = fast_forward(layer, x, h)
    input_gate, _, candidate, _ = (x @ layer.weight_ih.T).chunk(4, dim=-1)
    torch.testing.assert_close(
        up, torch.cat([candidate / FAST_FORWARD_DIVISOR, input_gate / FAST_FORWARD_DIVISOR, h], -1)
    )


def test_a_fast_forward_stack_is_the_formula():
    stack, x = loud(FastForwardStack(D, layers=L)), draw(B, T, 3 * D)
    found = stack(x).outputs
    for layer in stack.layers:
        h = run(layer, x)
        x = fast_forward(layer, x, h)
    torch.testing.assert_close(found, h)


def test_a_fast_forward_stack_steps_as_it_runs():
    stack, x = loud(FastForwardStack(D, layers=L)), draw(B, T, K, 3 * D)
    runs = torch.stack([stack(x[:, :, k]).outputs for k in range(K)], 2)  # (B, T, K, D)
    hidden = (draw(B, K, D) * 0,) * (2 * L)
    for t in range(T):
        top, hidden = stack(x[:, t], hidden)
        torch.testing.assert_close(top, runs[:, t])


@pytest.mark.parametrize("backward", [False, True])
def test_a_column_reads_to_and_fro(backward):
    column, x = loud(FastForwardColumn(E, D, layers=L, backward=backward)), draw(B, T, E)
    found = column(x, MASK)
    assert found.shape == (B, T, 5 * D)
    for row, length in enumerate(LENGTHS):
        given = x[row : row + 1, :length]
        for index, layer in enumerate(column.layers):
            turn = backward != bool(index % 2)
            h = run(layer, given.flip(1)).flip(1) if turn else run(layer, given)
            f = given @ layer.weight_ih.T / FAST_FORWARD_DIVISOR
            given = fast_forward(layer, given, h)
        torch.testing.assert_close(found[row : row + 1, :length], torch.cat([f, h], -1))


def test_a_fresh_f_keeps_its_size_through_many_layers():
    column = FastForwardColumn(64, 64, layers=9, backward=False)
    f = column(torch.randn(20, 30, 64), torch.ones(20, 30, dtype=torch.bool))[..., : 4 * 64]
    assert 0.5 < f.std().item() * FAST_FORWARD_DIVISOR < 2.0


S, M = 5, 9
REAL = torch.arange(S) < torch.tensor([[5], [3], [1]])


def attention_lstm():
    torch.manual_seed(0)
    layer = AttentionLstm(E, M, D, A).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_(std=0.5)
    return layer, torch.randn(B, S, M, dtype=torch.float64)


def test_attention_lstm_is_the_formula():
    layer, memory = attention_lstm()
    x = torch.randn(B, T, E, dtype=torch.float64)
    contexts, outputs = layer(x, layer.prepare(memory), REAL, hook=None)
    assert contexts.shape == (B, T, M)
    assert outputs.shape == (B, T, D)
    for b, length in enumerate((5, 3, 1)):
        m, hidden = memory[b, :length], layer.layer.zero_state(1)  # (S, M)
        for t in range(T):
            energies = layer.score.energy(
                torch.tanh(layer.score.query(hidden[0]) + layer.score.key(m))
            )  # (S, 1)
            a = energies[:, 0].softmax(0) @ m
            hidden = layer.layer.step(torch.cat([x[b, t], a])[None], hidden)
            torch.testing.assert_close(contexts[b, t], a)
            torch.testing.assert_close(outputs[b, t], hidden[0][0])


def test_hypotheses_of_a_sentence_share_its_memory():
    layer, memory = attention_lstm()
    x = torch.randn(B, K, E, dtype=torch.float64)
    hidden = tuple(torch.randn(B, K, D, dtype=torch.float64) for _ in range(2))
    kv, site = layer.prepare(memory), Site("cross", 0, 1)
    context, new = layer.step(x, hidden, kv, REAL, site=site, hook=None)
    for k in range(K):
        alone = layer.step(
            x[:, k : k + 1],
            tuple(h[:, k : k + 1] for h in hidden),
            kv,
            REAL,
            site=site,
            hook=None,
        )
        torch.testing.assert_close(alone[0][:, 0], context[:, k])
        for one, other in zip(alone[1], new, strict=True):
            torch.testing.assert_close(one[:, 0], other[:, k])


def test_hooks_see_the_position_of_each_step():
    layer, memory = attention_lstm()
    x = torch.randn(B, T, E, dtype=torch.float64)
    seen = []
    layer(x, layer.prepare(memory), REAL, hook=lambda site, w: seen.append(site) or w)
    assert seen == [Site("cross", 0, t) for t in range(T)]
