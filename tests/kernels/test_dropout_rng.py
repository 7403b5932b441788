import pytest
import torch

from kernels.plain import keep_mask
from regard.kernels.dropout import draw_seed

ROWS, PARTS, COLS = 301, 3, 128


def mask(seed, dropout):
    rows, parts, cols = (torch.arange(size) for size in (ROWS, PARTS, COLS))
    return keep_mask(seed, rows[:, None], parts[:, None, None], cols, dropout)  # (P, R, C)


@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_the_share_dropped_is_p_in_every_row_and_column(dropout):
    stays = mask(torch.tensor([42]), dropout).double()
    assert abs(stays.mean() - (1 - dropout)) < 0.005
    for axes in ((0, 1), (0, 2)):
        spread = (dropout * (1 - dropout) / (stays.numel() / stays.sum(axes).numel())) ** 0.5
        assert ((stays.mean(axes) - (1 - dropout)).abs() < 5 * spread).all()


def test_neighbours_and_seeds_are_independent():
    one, other = mask(torch.tensor([42]), 0.5), mask(torch.tensor([43]), 0.5)
    third = mask(torch.tensor([42 + (1 << 32)]), 0.5)
    near = [(one[1:], one[:-1]), (one[:, 1:], one[:, :-1]), (one[..., 1:], one[..., :-1])]
    pairs = [(one, other), (one, third), *near]
    for left, right in pairs:
        assert abs((left == right).double().mean() - 0.5) < 0.01


def test_a_seed_is_drawn_from_the_generator():
    here = torch.device("cpu")
    torch.manual_seed(3)
    first, second = draw_seed(here), draw_seed(here)
    torch.manual_seed(3)
    assert first.shape == (1,)
    assert torch.equal(first, draw_seed(here))
    assert not torch.equal(first, second)
