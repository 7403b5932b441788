import pytest
import torch

from regard.attention.attend import KeyValues
from regard.attention.kv_cache import attend_step, use_attend_step
from regard.kernels.decode_attention import decode_attention
from regard.kernels.dispatch import use_decode_attention

B, H = 3, 2


def given(device, queries, keys, width, dtype=torch.float32, *, rows=None):
    """Tensors as in a decoding step: heads split without a copy, slots of a larger buffer."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(shape, generator=generator).to(device, dtype)

    q = random(B, queries, 3, H, width).permute(2, 0, 3, 1, 4)[0]  # (B, H, T, K)
    kv = KeyValues(*(random(B, H, keys + 9, width)[:, :, :keys] for _ in range(2)))
    seen = torch.rand(B, 1, rows or queries, keys, generator=generator) < 0.5
    seen[..., 0] = True
    hidden = torch.zeros(seen.shape).masked_fill(~seen, float("-inf")).to(device, dtype)
    return q, kv, hidden


@pytest.mark.parametrize(
    ("queries", "keys", "width"), [(1, 1, 16), (5, 15, 24), (5, 70, 64), (16, 130, 40)]
)
@pytest.mark.parametrize("rows", [None, 1])
def test_the_kernel_is_the_formula(queries, keys, width, rows, device):
    q, kv, hidden = given(device, queries, keys, width, rows=rows)
    found = decode_attention(q, *kv, hidden, scale=0.3)
    assert found.transpose(1, 2).is_contiguous()
    scores = torch.add(hidden, q @ kv.keys.mT, alpha=0.3)
    # tensor cores add three products of the two parts that each float32 is split into
    torch.testing.assert_close(found, scores.softmax(-1) @ kv.values, atol=3e-5, rtol=1e-5)


def test_half_precision_is_near_the_formula(device):
    q, kv, hidden = given(device, 5, 70, 32, torch.float16)
    found = decode_attention(q, *kv, hidden, scale=0.3)
    assert found.dtype == torch.float16
    scores = torch.add(hidden.double(), q.double() @ kv.keys.double().mT, alpha=0.3)
    wanted = scores.softmax(-1) @ kv.values.double()
    torch.testing.assert_close(found.double(), wanted, atol=3e-3, rtol=3e-3)


def test_a_search_uses_it_where_no_gradients_are_needed(device):
    q, kv, hidden = given(device, 5, 20, 16)
    assert use_attend_step(q)
    with torch.no_grad():
        found = attend_step(q, kv, hidden, scale=0.3)
    assert found.transpose(1, 2).is_contiguous()
    assert not attend_step(q, kv, hidden, scale=0.3).transpose(1, 2).is_contiguous()


def test_what_it_is_not_for(device):
    assert not use_decode_attention(torch.zeros(B, H, 17, 16, device=device))
    assert use_decode_attention(torch.zeros(B, H, 64, 16, device=device, dtype=torch.bfloat16))
    assert not use_decode_attention(torch.zeros(B, H, 65, 16, device=device, dtype=torch.bfloat16))
    assert not use_decode_attention(torch.zeros(B, H, 5, 129, device=device))
    assert not use_decode_attention(torch.zeros(B, H, 5, 16, device=device, dtype=torch.float64))


def test_fully_masked_queries_yield_zeros_if_values_are_zero(device):
    """As for a source that is all padding: see `SourceMask.zero_masked`."""
    q, kv, _ = given(device, 5, 20, 16)
    hidden = torch.full((B, 1, 1, 20), torch.finfo(torch.float32).min / 2, device=device)
    found = decode_attention(q, kv.keys, torch.zeros_like(kv.values), hidden, scale=0.3)
    assert found.abs().max() == 0


def test_keys_and_values_of_unlike_widths_and_biases_of_heads_have_the_formula(device):
    q, kv, hidden = given(device, 5, 20, 16)
    narrow = KeyValues(kv.keys, kv.values[..., :8])
    with torch.no_grad():
        assert attend_step(q, narrow, hidden, scale=0.3).shape == (B, H, 5, 8)
        biased = hidden.expand(-1, H, -1, -1)
        wanted = attend_step(q, kv, hidden, scale=0.3)
        torch.testing.assert_close(attend_step(q, kv, biased, scale=0.3), wanted)
