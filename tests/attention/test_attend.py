import numpy as np
import pytest
import torch

from regard.attention.attend import (
    KeyValues,
    attend,
    causal_mask,
    fused_attention,
    masked_softmax,
    padding_mask,
)
from regard.attention.score_functions import AdditiveScore, DotScore, ScaledDotScore
from regard.types import Site

B, H, T, S, K, KV = 2, 3, 4, 5, 8, 6
HERE = Site("cross", 0)
NEEDS_GPU = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def plain_attention(*given, hook=lambda _, weights: weights, **named):
    """The formula: with a hook no kernel is used."""
    return attend(*given, hook=hook, **named)


def some(dtype=torch.float64, *, seed=0):
    """Queries, keys and values, and a mask whose first row is fully masked."""
    torch.manual_seed(seed)
    queries = torch.randn(B, H, T, K, dtype=dtype)
    kv = KeyValues(torch.randn(B, H, S, K, dtype=dtype), torch.randn(B, H, S, KV, dtype=dtype))
    mask = torch.rand(B, 1, T, S) < 0.6
    mask[..., 0] = True
    mask[0, 0, 0] = False
    return queries, kv, mask


def test_masked_softmax_is_the_softmax_of_what_is_visible():
    torch.manual_seed(0)
    scores = torch.randn(T, S, dtype=torch.float64)
    mask = torch.tensor([[1, 1, 0, 0, 1], [0, 0, 0, 0, 1], [1, 1, 1, 1, 1], [0, 1, 1, 0, 0]]).bool()
    weights = masked_softmax(scores, mask)
    for row in range(T):
        exp = np.exp(scores[row, mask[row]].numpy())
        np.testing.assert_allclose(weights[row, mask[row]], exp / exp.sum(), rtol=1e-14)
    assert (weights[~mask] == 0).all()


def test_masked_softmax_gives_zeros_and_no_gradient_where_there_is_nothing_to_see():
    scores = torch.randn(2, S, requires_grad=True)
    mask = torch.tensor([[False] * S, [True] * S])
    weights = masked_softmax(scores, mask)
    (weights * torch.arange(S)).sum().backward()
    assert (weights[0] == 0).all()
    assert (scores.grad[0] == 0).all()
    assert scores.grad.isfinite().all()
    assert (scores.grad[1] != 0).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_hidden_scores_cannot_poison_weights_or_gradients(dtype):
    scores = torch.tensor([[6e4, 0.0, 1.0]], dtype=dtype, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False, True, True]]))
    weights[0, 1].backward()
    assert weights[0, 0] == 0
    assert scores.grad.isfinite().all()
    assert scores.grad[0, 0] == 0
    assert scores.grad[0, 1] != 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype):
    scores = torch.zeros(1, 3000, dtype=dtype)
    weights = masked_softmax(scores, torch.ones(1, 3000, dtype=torch.bool))
    torch.testing.assert_close(weights, torch.full((1, 3000), 1 / 3000))


def test_large_scores_do_not_overflow():
    weights = masked_softmax(torch.tensor([[1e30, 1e30, -1e30]]), torch.ones(1, 3).bool())
    assert weights.tolist() == [[0.5, 0.5, 0.0]]


@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=NEEDS_GPU)])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 3e-2), (torch.float16, 4e-3)],
)
@pytest.mark.parametrize("score", [DotScore(), ScaledDotScore()])
def test_fused_equals_plain_in_values_and_gradients(score, dtype, tolerance, biased, device):
    queries, kv, mask = some(dtype)
    queries, kv, mask = queries.to(device), KeyValues(*(x.to(device) for x in kv)), mask.to(device)
    bias = torch.randn(B, 1, T, S, dtype=dtype, device=device) if biased else None
    parts = [x.requires_grad_() for x in (queries, *kv, *([] if bias is None else [bias]))]
    slow = plain_attention(score, queries, kv, mask, site=HERE, bias=bias)
    fast = fused_attention(queries, kv, mask, scale=score.scale(K), bias=bias)
    assert (fast[0, :, 0] == 0).all(), "a row with nothing to see"
    torch.testing.assert_close(fast, slow, atol=tolerance, rtol=tolerance)
    pull = torch.randn_like(slow)
    wanted = torch.autograd.grad(slow, parts, pull)
    found = torch.autograd.grad(fast, parts, pull)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, atol=4 * tolerance, rtol=4 * tolerance)


def test_plain_is_the_formula():
    queries, kv, mask = some()
    found = plain_attention(ScaledDotScore(), queries, kv, mask, site=HERE)
    q, k, v = (x.numpy() for x in (queries, *kv))
    exp = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(K)) * mask.numpy()
    total = exp.sum(-1, keepdims=True)
    np.testing.assert_allclose(found, exp / np.where(total, total, 1) @ v, atol=1e-12)


def test_bias_is_added_to_the_scores():
    queries, kv, mask = some()
    bias = torch.randn(B, 1, T, S, dtype=torch.float64)
    seen = []
    plain_attention(
        DotScore(), queries, kv, mask, site=HERE, bias=bias, hook=lambda _, w: seen.append(w) or w
    )
    torch.testing.assert_close(seen[0], masked_softmax(queries @ kv.keys.mT + bias, mask))


def test_a_hook_gets_the_site_and_may_replace_the_weights():
    queries, kv, mask = some(torch.float32)
    sites = []

    def look_at_the_last(site, weights):
        sites.append(site)
        assert weights.shape == (B, H, T, S)
        return torch.nn.functional.one_hot(torch.full((B, H, T), S - 1), S).float()

    mixed = attend(ScaledDotScore(), queries, kv, mask, site=HERE, hook=look_at_the_last)
    assert sites == [HERE]
    torch.testing.assert_close(mixed, kv.values[:, :, -1:].expand(-1, -1, T, -1))


def test_a_hook_that_changes_nothing_changes_not_a_bit_in_float64():
    queries, kv, mask = some()
    without = attend(ScaledDotScore(), queries, kv, mask, site=HERE)
    hooked = attend(ScaledDotScore(), queries, kv, mask, site=HERE, hook=lambda _, w: w)
    assert torch.equal(without, hooked)


def test_scores_that_are_no_dot_product_take_the_plain_formula():
    queries, kv, mask = some(torch.float32)
    score = AdditiveScore(K, K, hidden=7)
    kv = KeyValues(score.prepare(kv.keys), kv.values)
    found = attend(score, queries, kv, mask, site=HERE)
    torch.testing.assert_close(found, plain_attention(score, queries, kv, mask, site=HERE))


@pytest.mark.parametrize("hook", [None, lambda _, w: w], ids=["fused", "plain"])
def test_dropout_drops_weights_and_makes_up_for_it(hook):
    torch.manual_seed(0)
    many, p = 4000, 0.25
    queries, keys = torch.zeros(1, 1, many, K), torch.zeros(1, 1, 1, K)
    kv, mask = KeyValues(keys, torch.ones(1, 1, 1, 1)), torch.ones(1, 1, 1, 1).bool()
    mixed = attend(DotScore(), queries, kv, mask, site=HERE, dropout=p, hook=hook)
    torch.testing.assert_close(mixed.unique(), torch.tensor([0, 1 / (1 - p)]))
    assert abs((mixed == 0).float().mean() - p) < 0.05


def test_key_values_pick_sentences_and_grow():
    _, kv, _ = some()
    picked = kv.select_sentences(torch.tensor([1, 1, 0]))
    assert torch.equal(picked.keys, kv.keys[[1, 1, 0]])
    assert torch.equal(picked.values, kv.values[[1, 1, 0]])
    grown = kv.append(KeyValues(kv.keys[:, :, :2], kv.values[:, :, :2]))
    assert grown.keys.shape == (B, H, S + 2, K)
    assert torch.equal(grown.values[:, :, S:], kv.values[:, :, :2])


def test_short_sentences_in_half_precision_are_trained_by_the_formula(monkeypatch):
    """On a CPU, whose kernel has a slow backward pass; without gradients the kernel is fast."""
    fused = []
    monkeypatch.setattr(
        "regard.attention.attend.fused_attention",
        lambda *given, **named: fused.append(1) or fused_attention(*given, **named),
    )
    queries, kv, mask = some(torch.bfloat16)
    attend(ScaledDotScore(), queries, kv, mask, site=HERE)
    assert len(fused) == 1
    attend(ScaledDotScore(), queries.requires_grad_(), kv, mask, site=HERE)
    assert len(fused) == 1
    monkeypatch.setattr("regard.attention.attend.CPU_FORMULA_MAX_KEYS", S - 1)
    attend(ScaledDotScore(), queries, kv, mask, site=HERE)
    assert len(fused) == 2


def test_padding_mask_shows_the_real_keys_to_every_query():
    real = torch.tensor([[True, True, False], [True, False, False]])
    mask = padding_mask(real)
    assert mask.shape == (2, 1, 1, 3)
    assert torch.equal(mask[:, 0, 0], real)


def test_causal_mask_hides_the_future():
    assert causal_mask(3, 3)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_causal_mask_lets_late_queries_see_what_was_there_before():
    mask = causal_mask(2, 5)
    assert mask.shape == (1, 1, 2, 5)
    assert mask[0, 0].int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
