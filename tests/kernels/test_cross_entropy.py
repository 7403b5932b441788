import pytest
import torch
import torch.nn.functional as F

from regard.kernels import cross_entropy, dispatch
from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.training.loss import cross_entropy_and_grad_

M, V = 5, 21


@pytest.fixture(autouse=True, params=[0, 64], ids=["row in blocks", "whole row"])
def small_tiles(request, monkeypatch):
    monkeypatch.setattr(cross_entropy, "MAX_WHOLE_ROW", request.param)
    monkeypatch.setattr(cross_entropy, "BLOCK", 8)


def given(device, dtype=torch.float32):
    logits = 3 * torch.randn(M, V, generator=torch.Generator().manual_seed(0))
    return logits.to(device, dtype), torch.tensor([3, V - 1, IGNORE_INDEX, 0, 7], device=device)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("disabled", [set(), {"cross_entropy"}], ids=["kernel", "formula"])
def test_losses_and_gradients_equal_torchs(disabled, smoothing, device, monkeypatch):
    monkeypatch.setattr(dispatch, "disabled", disabled)
    logits, labels = given(device)
    wanted = logits.clone().requires_grad_()
    losses = F.cross_entropy(wanted, labels, label_smoothing=smoothing, reduction="none")
    losses.sum().backward()
    found, nll = cross_entropy_and_grad_(logits, labels, smoothing)
    torch.testing.assert_close(found, losses.detach())
    torch.testing.assert_close(logits, wanted.grad)
    own = F.cross_entropy(wanted.detach(), labels, reduction="none")
    torch.testing.assert_close(nll, own)


def test_half_precision_is_rounded_once(device, monkeypatch):
    logits, labels = given(device, torch.bfloat16)
    other = logits.clone()
    found = cross_entropy_and_grad_(logits, labels, 0.1)
    monkeypatch.setattr(dispatch, "disabled", {"cross_entropy"})
    torch.testing.assert_close(found, cross_entropy_and_grad_(other, labels, 0.1))
    torch.testing.assert_close(logits, other)


def test_a_row_must_be_contiguous(device):
    logits, labels = given(device)
    with pytest.raises(ValueError, match="side by side"):
        cross_entropy_and_grad_(logits.T.contiguous().T, labels, 0.1)
