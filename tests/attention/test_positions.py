import math

import numpy as np
import pytest
import torch

from regard.attention.positions import (
    LearnedPositions,
    RelativeKeys,
    SinusoidPositions,
    angles,
    apply_rotary,
    build_positions,
    check_length,
    check_max_positions,
    relative_positions,
    rotate_pairs,
    sinusoid,
)
from regard.errors import TextError

B, H, T, S, K, D = 2, 3, 5, 6, 8, 12
LENGTH = 50


def test_sinusoid_is_the_formula():
    wanted = np.empty((LENGTH, D))
    for p in range(LENGTH):
        for i in range(D // 2):
            wanted[p, 2 * i] = np.sin(p / 10000 ** (2 * i / D))
            wanted[p, 2 * i + 1] = np.cos(p / 10000 ** (2 * i / D))
    found = sinusoid(torch.arange(LENGTH), D)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_distance_of_two_sinusoids_depends_on_their_offset_alone():
    waves = sinusoid(torch.arange(LENGTH), D)
    for offset in (1, 7, 20):
        distances = (waves[offset:] - waves[:-offset]).norm(dim=-1)
        torch.testing.assert_close(distances, distances[:1].expand_as(distances))
    assert (waves[1:] - waves[:1]).norm(dim=-1).min() > 0.1


def test_sinusoids_begin_anywhere():
    torch.testing.assert_close(
        sinusoid(torch.arange(7, 9), D), sinusoid(torch.arange(LENGTH), D)[7:9]
    )


def test_sinusoid_takes_an_odd_width():
    waves = sinusoid(torch.arange(LENGTH), 5)
    assert waves.shape == (LENGTH, 5)
    np.testing.assert_allclose(waves[:, 4], np.sin(np.arange(LENGTH) / 10000 ** (4 / 5)), atol=1e-6)


def test_sinusoids_have_no_parameters():
    positions = build_positions("sinusoid", D, 0)
    assert isinstance(positions, SinusoidPositions)
    assert not positions.state_dict()
    assert positions(torch.arange(LENGTH)).shape == (LENGTH, D)


@pytest.mark.parametrize(("layout", "last"), [("halves", D / 2), ("tensor2tensor", D / 2 - 1)])
def test_sinusoids_of_other_toolkits_have_sines_before_cosines(layout, last):
    vectors = build_positions("sinusoid", D, 0, layout=layout, first=2)(torch.arange(LENGTH))
    phases = (np.arange(LENGTH)[:, None] + 2) / 10000 ** (np.arange(D // 2) / last)
    np.testing.assert_allclose(vectors, np.hstack([np.sin(phases), np.cos(phases)]), atol=1e-5)


def test_learned_positions_are_rows_of_a_table():
    positions = build_positions("learned", D, LENGTH)
    assert isinstance(positions, LearnedPositions)
    assert torch.equal(positions(torch.tensor([3, 0])), positions.table.weight[[3, 0]])
    with pytest.raises(IndexError):
        positions(torch.tensor([LENGTH]))


def test_a_bound_without_effect_is_refused():
    check_max_positions("learned", 9)
    check_max_positions("sinusoid", None)
    with pytest.raises(ValueError, match="max_positions 9 has no effect on sinusoid positions"):
        check_max_positions("sinusoid", 9)


def test_a_sentence_without_positions_is_refused():
    check_length(9, 9)
    check_length(10**6, None)
    with pytest.raises(TextError, match="10 tokens is longer than the 9 positions"):
        check_length(10, 9)


@pytest.mark.parametrize("name", ["relative", "rotary"])
def test_positions_of_self_attention_add_nothing_to_token_vectors(name):
    assert build_positions(name, D, 0) is None


def test_offsets_count_from_the_query_to_the_key():
    device = torch.device("cpu")
    assert relative_positions(2, 3, device=device).tolist() == [[0, 1, 2], [-1, 0, 1]]
    assert relative_positions(2, 3, first=-2, device=device).tolist() == [[-2, -1, 0], [-3, -2, -1]]


@pytest.mark.parametrize(("back", "ahead"), [(2, 3), (3, 0), (9, 9)])
def test_bias_is_the_papers_formula(back, ahead):
    torch.manual_seed(0)
    relative = RelativeKeys(K, back=back, ahead=ahead).double()
    queries = torch.randn(B, H, T, K, dtype=torch.float64)
    found = relative(queries, relative_positions(T, S, device=torch.device("cpu")))
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_product_of_complex_numbers_is_the_formula_with_its_gradients(dtype):
    x, weight = torch.randn(2, B, T, H, K, dtype=dtype).transpose(2, 3)  # heads as they are split
    wide = torch.promote_types(dtype, torch.float32)
    phases = angles(torch.arange(T), K, dtype=wide)
    found, wanted = x.clone().requires_grad_(), x.clone().requires_grad_()
    one, two = rotate_pairs(found, phases), apply_rotary(wanted, torch.arange(T))
    assert one.dtype == dtype
    torch.testing.assert_close(one, two)
    (one * weight).sum().backward()
    (two * weight).sum().backward()
    torch.testing.assert_close(found.grad, wanted.grad, rtol=2e-2, atol=2e-2)
    if dtype == torch.float64:
        torch.testing.assert_close(found.grad, wanted.grad)
