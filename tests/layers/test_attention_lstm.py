import torch

from regard.layers.attention_lstm import AttentionLstm
from regard.types import Site

B, T, S, K, E, M, D, A = 2, 3, 5, 4, 6, 7, 8, 9
REAL = torch.arange(S) < torch.tensor([[5], [3]])


def loud():
    torch.manual_seed(0)
    layer = AttentionLstm(E, M, D, A).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_(std=0.5)
    return layer, torch.randn(B, S, M, dtype=torch.float64)


def test_is_the_formula():
    layer, memory = loud()
    x = torch.randn(B, T, E, dtype=torch.float64)
    contexts, outputs = layer(x, layer.prepare(memory), REAL, hook=None)
    assert contexts.shape == (B, T, M)
    assert outputs.shape == (B, T, D)
    for b, length in enumerate((5, 3)):
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
    layer, memory = loud()
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


def test_each_step_says_where_it_is():
    layer, memory = loud()
    x = torch.randn(B, T, E, dtype=torch.float64)
    seen = []
    layer(x, layer.prepare(memory), REAL, hook=lambda site, w: seen.append(site) or w)
    assert seen == [Site("cross", 0, t) for t in range(T)]
