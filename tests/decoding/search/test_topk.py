import pytest
import torch

from regard.decoding.search.topk import CPU_CHUNK_FROM, stable_topk, stable_topk_of_sums


@pytest.mark.parametrize(
    ("n", "k"),
    [(1, 1), (7, 7), (7, 3), (513, 1), (9001, 1), (1000, 10), (1013, 2), (9001, 3)],
)
@pytest.mark.parametrize("kinds", [2, 300, 5000, 10**6])
def test_is_the_beginning_of_a_stable_sort(n, k, kinds):
    torch.manual_seed(n + k)
    rows = torch.randint(kinds, (3, n)).float()
    rows[0, ::2] = float("-inf")
    want = rows.sort(dim=1, descending=True, stable=True)
    got = stable_topk(rows, k)
    assert got.values.tolist() == want.values[:, :k].tolist()
    assert got.indices.tolist() == want.indices[:, :k].tolist()


@pytest.mark.parametrize("n", [81, 322, 8003])
@pytest.mark.parametrize("kinds", [2, 300, 10**6])
def test_many_rows_are_narrowed_down_to_the_same(n, kinds):
    torch.manual_seed(n)
    rows = torch.randint(kinds, (CPU_CHUNK_FROM // 80 + 1, n)).float()
    want = rows.sort(dim=1, descending=True, stable=True)
    got = stable_topk(rows, 10)
    assert torch.equal(got.values, want.values[:, :10])
    assert torch.equal(got.indices, want.indices[:, :10])


def test_rows_that_are_all_alike_are_taken_in_order():
    got = stable_topk(torch.full((2, 500), float("-inf")), 4)
    assert got.indices.tolist() == [[0, 1, 2, 3]] * 2


def test_not_a_number_is_not_hidden():
    rows = torch.zeros(1, 300)
    rows[0, 217] = float("nan")
    assert stable_topk(rows, 2).indices[0, 0] == 217


@pytest.mark.parametrize(
    ("cells", "size", "k"), [(1, 3200, 1), (5, 640, 10), (3, 96, 2), (3, 97, 2), (2, 8, 16)]
)
@pytest.mark.parametrize("kinds", [2, 5000, 10**6])
def test_sums_are_ranked_as_if_all_were_made(cells, size, k, kinds):
    torch.manual_seed(size)
    rows = torch.randint(kinds, (3, cells, size)) / 7
    rows[0, :, ::2] = float("-inf")
    offsets = 1e4 * torch.rand(3, cells)  # so much more that sums are equal where entries are not
    offsets[1, 0] = float("-inf")
    want = stable_topk((rows + offsets[..., None]).flatten(1), k)
    got = stable_topk_of_sums(rows, offsets, k)
    assert got.values.tolist() == want.values.tolist()
    assert got.indices.tolist() == want.indices.tolist()
