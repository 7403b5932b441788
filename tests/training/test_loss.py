from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.models.contracts import OutputProjection, Predictor
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.training import loss as training_loss
from regard.training.loss import (
    batch_loss,
    chunked_loss,
    smoothed_cross_entropy,
    soft_label_loss,
    symmetric_kl,
)
from regard.types import Batch, Padded, Series

M, V = 5, 7
ROWS, D = 11, 6  # of the chunked loss


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_smoothed_cross_entropy_matches_torch(smoothing):
    logits, labels = torch.randn(M, V, dtype=torch.float64), torch.randint(V, (M,))
    loss = smoothed_cross_entropy(logits, labels, smoothing)
    want = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.loss, want)
    torch.testing.assert_close(loss.nll, F.cross_entropy(logits, labels, reduction="sum"))


def test_low_precision_logits_are_summed_in_float32():
    loss = smoothed_cross_entropy(torch.randn(M, V).bfloat16(), torch.randint(V, (M,)), 0.1)
    assert loss.loss.dtype == torch.float32


def test_symmetric_kl_is_the_mean_of_both_divergences():
    one, other = torch.randn(2, M, V, dtype=torch.float64)
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    there = F.kl_div(q, p, reduction="sum", log_target=True)
    back = F.kl_div(p, q, reduction="sum", log_target=True)
    labels = torch.zeros(len(one), dtype=torch.long)
    torch.testing.assert_close(symmetric_kl(one, other, labels), (there + back) / 2)
    assert symmetric_kl(one, one, labels) == 0


def test_ignored_rows_have_no_divergence():
    one, other = torch.randn(2, M, V)
    labels = torch.tensor([3, IGNORE_INDEX, 1, IGNORE_INDEX, 0])
    wanted = symmetric_kl(one[::2], other[::2], labels[::2])
    torch.testing.assert_close(symmetric_kl(one, other, labels), wanted)


def small_model(dropout):
    torch.manual_seed(0)
    settings = TransformerSettings(
        encoder_layers=1, decoder_layers=1, width=8, heads=2, feed_forward=12, dropout=dropout
    )
    return Transformer(settings, V, V).double()


def two_pairs():
    source = Padded(torch.randint(V, (2, 4)), torch.ones(2, 4, dtype=torch.bool))
    mask = torch.tensor([[True, True, True], [True, True, False]])
    target = Padded(torch.randint(V, (2, 3)), mask)
    places = mask.flatten().nonzero()[:, 0]
    return Batch(
        replace(source, indices=torch.arange(8)), target, places, torch.randint(V, (len(places),))
    )


def test_consistency_costs_nothing_without_dropout():
    model, batch = small_model(dropout=0.0), two_pairs()
    once, duplicated = batch_loss(model, batch, 0.1), batch_loss(model, batch, 0.1, consistency=5.0)
    torch.testing.assert_close(duplicated.loss, once.loss)
    torch.testing.assert_close(duplicated.nll, once.nll)


def test_consistency_adds_the_divergence_of_both_views():
    model, batch = small_model(dropout=0.5), two_pairs()
    torch.manual_seed(1)
    little = batch_loss(model, batch, 0.1, consistency=1e-9)
    torch.manual_seed(1)
    much = batch_loss(model, batch, 0.1, consistency=4.0)
    torch.manual_seed(1)
    duplicated = batch.duplicated()
    features = model.decode(duplicated.given, model.encode(duplicated.inputs)).features
    views = model.logits(features.flatten(0, 1)[duplicated.positions]).chunk(2)
    assert not torch.equal(*views)
    gap = symmetric_kl(*views, batch.labels)
    torch.testing.assert_close(much.loss - little.loss, 2 * gap)


@pytest.fixture
def small_chunks(monkeypatch):
    """Four rows in a chunk, so that there are three, the last of them short."""
    monkeypatch.setattr(training_loss, "CHUNK_LOGITS_CPU", 4 * V + 1)


def given(dtype=torch.float64, *, bias=True):
    torch.manual_seed(0)
    features, weight = torch.randn(ROWS, D, dtype=dtype), torch.randn(V, D, dtype=dtype)
    shift = torch.randn(V, dtype=dtype).requires_grad_() if bias else None
    output = OutputProjection(weight.requires_grad_(), shift)
    return features.requires_grad_(), output, torch.randint(V, (ROWS,))


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_chunked_loss_equals_that_of_all_logits(dtype, bias, smoothing):
    features, output, labels = given(dtype, bias=bias)
    logits = nn.functional.linear(features, *output)
    wanted = smoothed_cross_entropy(logits, labels, smoothing)
    found = chunked_loss(features, output, labels, smoothing)
    torch.testing.assert_close(found.loss, wanted.loss)
    torch.testing.assert_close(found.nll, wanted.nll)
    assert not found.nll.requires_grad
    weights = [x for x in (features, *output) if x is not None]
    torch.testing.assert_close(
        torch.autograd.grad(found.loss / ROWS, weights),
        torch.autograd.grad(wanted.loss / ROWS, weights),
    )


@pytest.mark.usefixtures("small_chunks")
def test_gradients_of_the_chunked_loss_are_right():
    features, output, labels = given()

    def loss(*given):
        return chunked_loss(given[0], OutputProjection(*given[1:]), labels, 0.1).loss

    assert torch.autograd.gradcheck(loss, (features, *output))


@pytest.mark.usefixtures("small_chunks")
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


@pytest.mark.usefixtures("small_chunks")
def test_without_gradients_none_are_computed(monkeypatch):
    features, output, labels = given()
    wanted = chunked_loss(features, output, labels, 0.1)
    monkeypatch.setattr(torch, "mm", None)  # which computes the gradients of features
    with torch.no_grad():
        found = chunked_loss(features, output, labels, 0.1)
    torch.testing.assert_close(found[:2], tuple(x.detach() for x in wanted[:2]))


@pytest.mark.usefixtures("small_chunks")
def test_nothing_larger_than_the_inputs_is_kept():
    features, output, labels = given(torch.float32)
    sizes = []

    def pack(x):
        sizes.append(x.numel())
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        chunked_loss(features, output, labels, 0.1)
    assert sorted(sizes) == sorted([ROWS * D, V * D, V])


class LinearPredictor(Predictor[Series]):
    """The first values of each row, with a penalty."""

    def __init__(self):
        super().__init__()
        self.output = nn.Linear(3, 5).double()

    def row_features(self, inputs, *, hook=None):
        return inputs.values[:, 0]

    def training_features(self, batch, *, hook=None):
        return super().training_features(batch)._replace(penalty=torch.tensor(0.25))


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_soft_labels_mix_the_losses_of_hard_ones(smoothing):
    torch.manual_seed(0)
    model = LinearPredictor()
    series = Series(torch.randn(4, 1, 3).double(), torch.ones(4, 1, dtype=torch.bool))
    first, second, share = torch.tensor([0, 4, 2, 2]), torch.tensor([1, 4, 0, 3]), 0.3
    hard = [batch_loss(model, Batch(series, None, None, ids), smoothing) for ids in (first, second)]
    eye = torch.eye(5).double()
    mixed = Batch(series, None, None, share * eye[first] + (1 - share) * eye[second])
    found = soft_label_loss(model, mixed, smoothing)
    for part in ("loss", "nll"):
        one, two = (getattr(each, part) for each in hard)
        torch.testing.assert_close(getattr(found, part), share * one + (1 - share) * two)
