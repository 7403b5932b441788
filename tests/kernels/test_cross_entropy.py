import pytest
import torch
import torch.nn.functional as F

from regard.kernels import cross_entropy
from regard.kernels.cross_entropy import (
    IGNORE_INDEX,
    Tiles,
    cross_entropy_and_grad_,
    plain_cross_entropy_and_grad_,
)

M, V = 5, 21


@pytest.fixture(autouse=True, params=[0, 64], ids=["in parts", "at once"])
def small_tiles(request, monkeypatch):
    monkeypatch.setattr(cross_entropy, "tiles", Tiles(cols=8, warps=4, whole=request.param))


def given(where, dtype=torch.float32):
    logits = 3 * torch.randn(M, V, generator=torch.Generator().manual_seed(0))
    return logits.to(where, dtype), torch.tensor([3, V - 1, IGNORE_INDEX, 0, 7], device=where)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("make", [cross_entropy_and_grad_, plain_cross_entropy_and_grad_])
def test_costs_and_slopes_are_torchs(make, smoothing, where):
    logits, labels = given(where)
    wanted = logits.clone().requires_grad_()
    losses = F.cross_entropy(wanted, labels, label_smoothing=smoothing, reduction="none")
    losses.sum().backward()
    found = make(logits, labels, smoothing)
    torch.testing.assert_close(found.loss, losses.detach())
    torch.testing.assert_close(logits, wanted.grad)
    own = F.cross_entropy(wanted.detach(), labels, reduction="none")
    torch.testing.assert_close(found.nll, own)


def test_half_precision_is_rounded_once(where):
    logits, labels = given(where, torch.bfloat16)
    other = logits.clone()
    found, wanted = (
        cross_entropy_and_grad_(logits, labels, 0.1),
        plain_cross_entropy_and_grad_(other, labels, 0.1),
    )
    torch.testing.assert_close(tuple(found), tuple(wanted))
    torch.testing.assert_close(logits, other)


def test_a_row_must_lie_side_by_side(where):
    logits, labels = given(where)
    with pytest.raises(ValueError, match="side by side"):
        cross_entropy_and_grad_(logits.T.contiguous().T, labels, 0.1)
