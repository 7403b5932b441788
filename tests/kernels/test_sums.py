import pytest
import torch

from regard.kernels import sums
from regard.kernels.sums import Tiles, plain_sum_rows, sum_rows

D = 24


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(sums, "first", Tiles(4, 16, 4, 3))
    monkeypatch.setattr(sums, "last", Tiles(4, 16, 4, 1))
    monkeypatch.setattr(sums, "FEW", 8)


@pytest.mark.parametrize("rows", [0, 1, 5, 8, 9, 50])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_is_the_formula(rows, dtype, where):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, D, generator=generator).to(where, dtype)
    found = sum_rows(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, plain_sum_rows(x))


def test_rows_may_be_far_apart(where):
    x = torch.arange(12.0 * 2 * D, device=where).view(12, 2 * D)
    for some in (x[:, :D], x.view(D, 24)[:, :12].T):
        torch.testing.assert_close(sum_rows(some), plain_sum_rows(some))
