import numpy as np
import pytest
import torch

from regard.attention.positions import (
    LearnedPositions,
    SinusoidPositions,
    build_positions,
    check_length,
    check_max_positions,
    sinusoid,
)
from regard.errors import TextError

T, D = 50, 12


def test_sinusoid_is_the_formula():
    wanted = np.empty((T, D))
    for p in range(T):
        for i in range(D // 2):
            wanted[p, 2 * i] = np.sin(p / 10000 ** (2 * i / D))
            wanted[p, 2 * i + 1] = np.cos(p / 10000 ** (2 * i / D))
    found = sinusoid(torch.arange(T), D)
    assert found.dtype == torch.float32
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_distance_of_two_sinusoids_depends_on_their_offset_alone():
    waves = sinusoid(torch.arange(T), D)
    for offset in (1, 7, 20):
        distances = (waves[offset:] - waves[:-offset]).norm(dim=-1)
        torch.testing.assert_close(distances, distances[:1].expand_as(distances))
    assert (waves[1:] - waves[:1]).norm(dim=-1).min() > 0.1


def test_sinusoids_begin_anywhere():
    torch.testing.assert_close(sinusoid(torch.arange(7, 9), D), sinusoid(torch.arange(T), D)[7:9])


def test_sinusoid_takes_an_odd_width():
    waves = sinusoid(torch.arange(T), 5)
    assert waves.shape == (T, 5)
    np.testing.assert_allclose(waves[:, 4], np.sin(np.arange(T) / 10000 ** (4 / 5)), atol=1e-6)


def test_sinusoids_have_no_parameters():
    positions = build_positions("sinusoid", D, 0)
    assert isinstance(positions, SinusoidPositions)
    assert not positions.state_dict()
    assert positions(torch.arange(T)).shape == (T, D)


@pytest.mark.parametrize("name", ["sinusoid", "learned"])
def test_one_position_is_that_of_all(name):
    positions = build_positions(name, D, T)
    with torch.inference_mode():
        first = positions.at(3, torch.device("cpu"))  # (1, D), kept for who asks next
    again = positions.at(3, torch.device("cpu"))
    assert torch.equal(first, positions(torch.tensor([3])))
    assert torch.equal(again, first)
    (again * torch.ones(1, D, requires_grad=True)).sum().backward()  # who may be learning


def test_learned_positions_are_rows_of_a_table():
    positions = build_positions("learned", D, T)
    assert isinstance(positions, LearnedPositions)
    assert torch.equal(positions(torch.tensor([3, 0])), positions.table.weight[[3, 0]])
    with pytest.raises(IndexError):
        positions(torch.tensor([T]))


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
