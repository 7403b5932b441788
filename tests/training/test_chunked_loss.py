import pytest
import torch
from torch import nn

from regard.models.contracts import OutputProjection
from regard.training import chunked_loss as chunks
from regard.training.chunked_loss import chunked_loss
from regard.training.loss import smoothed_cross_entropy

M, D, V = 11, 6, 7


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Four rows in a chunk, so that there are three, the last of them short."""
    monkeypatch.setattr(chunks, "CHUNK_LOGITS", {"cpu": 4 * V + 1})


def given(dtype=torch.float64, *, bias=True):
    torch.manual_seed(0)
    features, weight = torch.randn(M, D, dtype=dtype), torch.randn(V, D, dtype=dtype)
    shift = torch.randn(V, dtype=dtype).requires_grad_() if bias else None
    output = OutputProjection(weight.requires_grad_(), shift)
    return features.requires_grad_(), output, torch.randint(V, (M,))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_equals_the_loss_of_all_logits_at_once(dtype, bias, smoothing):
    features, output, labels = given(dtype, bias=bias)
    logits = nn.functional.linear(features, *output)
    wanted = smoothed_cross_entropy(logits, labels, smoothing)
    found = chunked_loss(features, output, labels, smoothing)
    torch.testing.assert_close(found.loss, wanted.loss)
    torch.testing.assert_close(found.nll, wanted.nll)
    assert not found.nll.requires_grad
    weights = [x for x in (features, *output) if x is not None]
    torch.testing.assert_close(
        torch.autograd.grad(found.loss / M, weights),
        torch.autograd.grad(wanted.loss / M, weights),
    )


def test_slopes_are_right():
    features, output, labels = given()

    def loss(*given):
        return chunked_loss(given[0], OutputProjection(*given[1:]), labels, 0.1).loss

    assert torch.autograd.gradcheck(loss, (features, *output))


def test_logits_have_autocasts_precision_and_sums_are_float32():
    features, output, labels = given(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        found = chunked_loss(features, output, labels, 0.1)
        wanted = smoothed_cross_entropy(nn.functional.linear(features, *output), labels, 0.1)
    assert found.loss.dtype == torch.float32
    torch.testing.assert_close(found.loss, wanted.loss)
    found.loss.backward()
    exact = given(torch.float32)
    smoothed_cross_entropy(nn.functional.linear(exact[0], *exact[1]), labels, 0.1)[0].backward()
    for one, other in zip((features, *output), (exact[0], *exact[1]), strict=True):
        assert one.grad.dtype == torch.float32
        torch.testing.assert_close(one.grad, other.grad, rtol=0.05, atol=0.05)


def test_what_needs_no_slopes_makes_none(monkeypatch):
    features, output, labels = given()
    wanted = chunked_loss(features, output, labels, 0.1)
    monkeypatch.setattr(torch, "mm", None)  # which makes the slopes of features
    with torch.no_grad():
        found = chunked_loss(features, output, labels, 0.1)
    torch.testing.assert_close(tuple(found), tuple(x.detach() for x in wanted))


def test_no_more_than_a_chunk_of_logits_is_ever_there():
    """What is kept for the slopes is no larger than what was given."""
    features, output, labels = given(torch.float32)
    sizes = []

    def pack(x):
        sizes.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        chunked_loss(features, output, labels, 0.1)
    assert sorted(sizes) == sorted([M * D, V * D, V])
