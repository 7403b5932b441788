import pytest
import torch

from regard.kernels import column_sum
from regard.kernels.column_sum import Tiles, column_sums, plain_column_sums

D = 24


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(column_sum, "first_pass_tiles", Tiles(4, 16, 4, 3))
    monkeypatch.setattr(column_sum, "last_pass_tiles", Tiles(4, 16, 4, 1))
    monkeypatch.setattr(column_sum, "TWO_PASS_ROWS", 8)


@pytest.mark.parametrize("rows", [0, 1, 5, 8, 9, 50])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_kernel_is_the_formula(rows, dtype, where):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, D, generator=generator).to(where, dtype)
    found = column_sums(x)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, plain_column_sums(x))


def test_rows_may_be_far_apart(where):
    x = torch.arange(12.0 * 2 * D, device=where).view(12, 2 * D)
    for some in (x[:, :D], x.view(D, 24)[:, :12].T):
        torch.testing.assert_close(column_sums(some), plain_column_sums(some))
