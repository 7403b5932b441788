import numpy as np
import pytest
import torch

from regard.attention.rotary import apply_rotary

B, H, T, K = 2, 3, 5, 8


def test_pairs_are_turned_by_the_papers_matrix():
    torch.manual_seed(0)
    x = torch.randn(B, H, T, K, dtype=torch.float64)
    found = apply_rotary(x, torch.arange(T))
    for p in range(T):
        turn = np.zeros((K, K))
        for i in range(K // 2):
            angle = p * 10000 ** (-2 * i / K)
            cos, sin = np.cos(angle), np.sin(angle)
            turn[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = [[cos, -sin], [sin, cos]]
        np.testing.assert_allclose(found[:, :, p], x[:, :, p].numpy() @ turn.T, atol=1e-13)


def test_products_depend_on_the_distance_alone():
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, K, dtype=torch.float64)
    here, there = torch.arange(T), torch.arange(T) + 700
    queries, keys = query.expand(T, K), key.expand(T, K)
    near = apply_rotary(queries, here) @ apply_rotary(keys, here).mT  # (T, T)
    far = apply_rotary(queries, there) @ apply_rotary(keys, there).mT
    torch.testing.assert_close(near, far)
    assert near[0].unique().numel() == T


def test_one_position_serves_all_rows():
    x = torch.randn(B, H, T, K, dtype=torch.float64)
    torch.testing.assert_close(
        apply_rotary(x, torch.tensor([3])), apply_rotary(x, torch.full((T,), 3)), rtol=0, atol=0
    )
    assert torch.equal(apply_rotary(x, torch.tensor([0])), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_turns_by_exact_angles(dtype):
    x = torch.ones(T, K, dtype=dtype)
    far = torch.arange(1000, 1000 + T)
    found = apply_rotary(x, far)
    assert found.dtype == dtype
    torch.testing.assert_close(found, apply_rotary(x.double(), far).to(dtype), rtol=0, atol=2e-2)
