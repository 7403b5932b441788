import pytest
import torch
from torch import nn

from regard.attention.masks import causal_mask, padding_mask
from regard.attention.multihead import MultiHeadAttention
from regard.types import Site

B, T, S, D, H = 2, 3, 5, 24, 4
HERE = Site("cross", 0)


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def pair(request):
    """Ours and torch's with the same weights, in float64."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(D, H, bias=request.param).double().eval()
    theirs = nn.MultiheadAttention(D, H, bias=request.param, batch_first=True).double().eval()
    with torch.no_grad():
        for bias in (ours.project.bias, ours.out.bias):
            if bias is not None:
                bias.normal_()
    theirs.in_proj_weight, theirs.in_proj_bias = ours.project.weight, ours.project.bias
    theirs.out_proj = ours.out
    return ours, theirs


def test_self_attention_equals_torch(pair):
    ours, theirs = pair
    x = torch.randn(B, T, D, dtype=torch.float64)
    seen = []
    queries, kv = ours.project_all(x)
    causal = causal_mask(T, T)
    found = ours(queries, kv, causal, site=HERE, hook=lambda _, w: seen.append(w) or w)
    wanted, weights = theirs(x, x, x, attn_mask=~causal[0, 0], average_attn_weights=False)
    torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(seen[0], weights)


def test_attention_to_a_memory_equals_torch(pair):
    ours, theirs = pair
    x, memory = (torch.randn(B, n, D, dtype=torch.float64) for n in (T, S))
    real = torch.tensor([[True] * S, [True, True, False, False, False]])
    queries, kv = ours.project_queries(x), ours.project_memory(memory)
    found = ours(queries, kv, padding_mask(real), site=HERE)
    wanted, _ = theirs(x, memory, memory, key_padding_mask=~real)
    torch.testing.assert_close(found, wanted)


def test_the_three_projections_are_slices_of_one():
    attention = MultiHeadAttention(D, H).double()
    x = torch.randn(B, T, D, dtype=torch.float64)
    queries, kv = attention.project_all(x)
    torch.testing.assert_close(attention.project_queries(x), queries)
    torch.testing.assert_close(attention.project_memory(x).keys, kv.keys)
    torch.testing.assert_close(attention.project_memory(x).values, kv.values)


def test_each_projection_is_drawn_as_if_alone():
    torch.manual_seed(0)
    attention = MultiHeadAttention(256, 4)
    bound = (6 / 512) ** 0.5  # Xavier for 256 -> 256, not for 256 -> 768
    for matrix in attention.project.weight.chunk(3):
        assert 0.98 * bound < matrix.abs().max() <= bound
    assert (attention.project.bias == 0).all()


def test_dropout_works_in_training_alone():
    torch.manual_seed(0)
    attention = MultiHeadAttention(D, H, dropout=0.5)
    queries, kv = attention.project_all(torch.randn(B, T, D))
    mask = causal_mask(T, T)
    first, second = (attention(queries, kv, mask, site=HERE) for _ in range(2))
    assert not torch.equal(first, second)
    attention.eval()
    first, second = (attention(queries, kv, mask, site=HERE) for _ in range(2))
    assert torch.equal(first, second)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="width=10 and heads=4"):
        MultiHeadAttention(10, 4)
