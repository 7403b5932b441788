import math

import pytest
import torch

from regard.attention.relative import RelativeKeys, relative_positions

B, H, T, S, K = 2, 3, 4, 6, 8


def test_offsets_count_from_the_query_to_the_key():
    where = torch.device("cpu")
    assert relative_positions(2, 3, where=where).tolist() == [[0, 1, 2], [-1, 0, 1]]
    assert relative_positions(2, 3, first=-2, where=where).tolist() == [[-2, -1, 0], [-3, -2, -1]]


@pytest.mark.parametrize(("back", "ahead"), [(2, 3), (3, 0), (9, 9)])
def test_bias_is_the_papers_formula(back, ahead):
    torch.manual_seed(0)
    relative = RelativeKeys(K, back=back, ahead=ahead).double()
    queries = torch.randn(B, H, T, K, dtype=torch.float64)
    found = relative(queries, relative_positions(T, S, where=torch.device("cpu")))
    assert found.shape == (B, H, T, S)
    for i in range(T):
        for j in range(S):
            clipped = max(-back, min(ahead, j - i))
            vector = relative.vectors[clipped + back]
            torch.testing.assert_close(found[:, :, i, j], queries[:, :, i] @ vector / math.sqrt(K))


def test_there_is_one_vector_for_each_distance():
    assert RelativeKeys(K, back=16, ahead=16).vectors.shape == (33, K)
    assert RelativeKeys(K, back=16, ahead=0).vectors.shape == (17, K)


def test_a_row_of_offsets_serves_all_queries():
    relative = RelativeKeys(K, back=2, ahead=0)
    queries = torch.randn(B, H, T, K)
    row = torch.tensor([[-3, -3, -1, 0, 0]])
    assert torch.equal(relative(queries, row), relative(queries, row.expand(T, -1)))
