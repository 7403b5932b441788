import pytest
import torch

from regard.kernels.dropout import LEVELS, Dropout, apply_dropout

SHAPE = (501, 203)  # no multiple of the four numbers that one draw decides


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.9])
def test_so_many_are_dropped_and_the_mean_stays(p, dtype):
    torch.manual_seed(0)
    found = apply_dropout(torch.ones(SHAPE, dtype=dtype), p)
    gone = found == 0
    assert gone.double().mean().item() == pytest.approx(p, abs=0.005)
    assert found.dtype == dtype
    scale = found[~gone].double()
    assert (scale == scale[0]).all()
    assert scale[0].item() == pytest.approx(
        1 / (1 - p), rel=4e-3 if dtype == torch.bfloat16 else 1e-4
    )


def test_no_place_is_favoured():
    """Neither the four numbers of a draw nor neighbours depend on each other."""
    torch.manual_seed(0)
    gone = (apply_dropout(torch.ones(250_000, 4), 0.5) == 0).double()
    assert gone.mean(0) == pytest.approx([0.5] * 4, abs=4e-3)
    assert (gone.T.corrcoef() - torch.eye(4)).abs().max() < 8e-3


def test_a_rare_drop_is_not_rounded_away():
    torch.manual_seed(0)
    gone = apply_dropout(torch.ones(4 * LEVELS, 10), 1e-6) == 0
    assert 10 < gone.sum() < 90  # 1 / LEVELS, the least there is, of 40 times as many


def test_gradients_are_those_of_the_scaled_mask():
    torch.manual_seed(0)
    x = torch.randn(SHAPE, requires_grad=True)
    y = apply_dropout(x, 0.3)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x, y)


def test_torchs_generator_decides():
    x = torch.ones(SHAPE)
    torch.manual_seed(5)
    one, other = apply_dropout(x, 0.3), apply_dropout(x, 0.3)
    torch.manual_seed(5)
    assert torch.equal(apply_dropout(x, 0.3), one)
    state = torch.get_rng_state()
    assert not torch.equal(one, other)
    again = apply_dropout(x, 0.3)
    torch.set_rng_state(state)
    assert torch.equal(apply_dropout(x, 0.3), again)


def test_dropping_nothing_is_free():
    x, state = torch.ones(3), torch.get_rng_state()
    assert apply_dropout(x, 0.0) is x
    assert torch.equal(torch.get_rng_state(), state)


def test_drops_in_training_alone():
    torch.manual_seed(0)
    dropout, x = Dropout(0.5), torch.ones(100)
    assert (dropout(x) == 0).any()
    assert dropout.eval()(x) is x


@pytest.mark.parametrize("p", [-0.1, 1.0])
def test_a_share_must_leave_something(p):
    with pytest.raises(ValueError, match=f"at least 0 and less than 1, got {p}"):
        Dropout(p)


def test_says_how_much():
    assert repr(Dropout(0.25)) == "Dropout(0.25)"
