import numpy as np
import pytest
import torch

from regard.attention.score_functions import (
    AdditiveScore,
    DotScore,
    MultiplicativeScore,
    PositionScore,
    ScaledDotScore,
    TanhPositionScore,
    TanhProductScore,
    build_score,
)

B, T, S, Q, K, HIDDEN = 2, 3, 5, 4, 6, 7


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def by_hand(formula, queries, keys):
    """`formula` of each query and key in turn, in NumPy."""
    scores = np.empty((B, T, S))
    for b, t, s in np.ndindex(B, T, S):
        scores[b, t, s] = formula(queries[b, t].numpy(), keys[b, s].numpy())
    return torch.from_numpy(scores)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_dot():
    queries, keys = draw(B, T, K), draw(B, S, K)
    torch.testing.assert_close(DotScore()(queries, keys), by_hand(np.dot, queries, keys))


def test_scaled_dot():
    queries, keys = draw(B, T, K), draw(B, S, K)
    wanted = by_hand(lambda q, k: q @ k / np.sqrt(K), queries, keys)
    torch.testing.assert_close(ScaledDotScore()(queries, keys), wanted)


def test_multiplicative():
    score = MultiplicativeScore(Q, K).double()
    queries, keys = draw(B, T, Q), draw(B, S, K)
    matrix = score.turn.weight.detach().numpy()
    wanted = by_hand(lambda q, k: q @ matrix @ k, queries, keys)
    torch.testing.assert_close(score(queries, score.prepare(keys)), wanted)


def test_additive():
    score = AdditiveScore(Q, K, HIDDEN).double()
    queries, keys = draw(B, T, Q), draw(B, S, K)
    w, u, v = (x.weight.detach().numpy() for x in (score.query, score.key, score.energy))
    wanted = by_hand(lambda q, k: (v @ np.tanh(w @ q + u @ k)).item(), queries, keys)
    torch.testing.assert_close(score(queries, score.prepare(keys)), wanted)


def test_tanh_product():
    score, queries, keys = TanhProductScore(Q, K, HIDDEN).double(), draw(B, T, Q), draw(B, S, K)
    w, u, v = (p.detach().numpy() for p in score.parameters())
    wanted = by_hand(lambda q, k: (v[0] * np.tanh(w @ q) * np.tanh(u @ k)).sum(), queries, keys)
    torch.testing.assert_close(score(queries, score.prepare(keys)), wanted)


@pytest.mark.parametrize("score", [DotScore(), ScaledDotScore(), MultiplicativeScore(K, K)])
def test_factor_makes_the_scores_from_a_dot_product(score):
    score = score.double()
    queries, keys = draw(B, T, K), score.prepare(draw(B, S, K))
    torch.testing.assert_close(score(queries, keys), queries @ keys.mT * score.scale(K))


def test_additive_scores_have_no_factor():
    assert AdditiveScore(Q, K, HIDDEN).scale(Q) is None


@pytest.mark.parametrize(
    ("name", "kind", "parameters"),
    [
        ("dot", DotScore, 0),
        ("scaled_dot", ScaledDotScore, 0),
        ("multiplicative", MultiplicativeScore, K * K),
        ("additive", AdditiveScore, 2 * K * HIDDEN + HIDDEN),
    ],
)
def test_build(name, kind, parameters):
    score = build_score(name, K, K, HIDDEN)
    assert type(score) is kind
    assert sum(p.numel() for p in score.parameters()) == parameters


@pytest.mark.parametrize("name", ["dot", "scaled_dot"])
def test_dot_products_need_one_width(name):
    with pytest.raises(ValueError, match=f"{name} needs queries as wide as keys.*=4 key_width=6"):
        build_score(name, Q, K, HIDDEN)


def test_an_unknown_name_fails():
    with pytest.raises(KeyError, match="bilinear"):
        build_score("bilinear", K, K, HIDDEN)


def test_position_scores_belong_to_the_last_keys():
    queries, keys, linear = draw(B, T, Q), draw(B, S, K), PositionScore(S + 2).double()
    wanted = linear.weight.detach()[2:].expand(B, T, S)
    torch.testing.assert_close(linear(queries, linear.prepare(keys)), wanted)
    score = TanhPositionScore(K, S + 2).double()
    torch.nn.init.normal_(score.bias)
    w, b = score.weight.detach().numpy(), score.bias.detach()[2:]
    wanted = (by_hand(lambda q, k: w @ k, queries, keys) + b).tanh()
    torch.testing.assert_close(score(queries, score.prepare(keys)), wanted)
    assert (linear.normalized, score.normalized) == (False, True)
