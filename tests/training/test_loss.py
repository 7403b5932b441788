import pytest
import torch
import torch.nn.functional as F

from regard.kernels.cross_entropy import IGNORE_INDEX
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.training.loss import batch_loss, smoothed_cross_entropy, symmetric_kl
from regard.types import Batch, Padded

M, V = 5, 7


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_matches_torch(smoothing):
    logits, labels = torch.randn(M, V, dtype=torch.float64), torch.randint(V, (M,))
    loss = smoothed_cross_entropy(logits, labels, smoothing)
    want = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.loss, want)
    torch.testing.assert_close(loss.nll, F.cross_entropy(logits, labels, reduction="sum"))


def test_low_precision_logits_are_summed_in_float32():
    loss = smoothed_cross_entropy(torch.randn(M, V).bfloat16(), torch.randint(V, (M,)), 0.1)
    assert loss.loss.dtype == torch.float32


def test_disagreement_is_the_mean_of_both_divergences():
    one, other = torch.randn(2, M, V, dtype=torch.float64)
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    there = F.kl_div(q, p, reduction="sum", log_target=True)
    back = F.kl_div(p, q, reduction="sum", log_target=True)
    labels = torch.zeros(len(one), dtype=torch.long)
    torch.testing.assert_close(symmetric_kl(one, other, labels), (there + back) / 2)
    assert symmetric_kl(one, one, labels) == 0


def test_rows_that_do_not_count_cannot_disagree():
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
    return Batch(source, target, places, torch.randint(V, (len(places),)), torch.arange(8))


def test_two_views_that_agree_cost_what_one_does():
    model, batch = small_model(dropout=0.0), two_pairs()
    once, duplicated = batch_loss(model, batch, 0.1), batch_loss(model, batch, 0.1, consistency=5.0)
    torch.testing.assert_close(duplicated.loss, once.loss)
    torch.testing.assert_close(duplicated.nll, once.nll)


def test_two_views_that_differ_cost_more():
    model, batch = small_model(dropout=0.5), two_pairs()
    torch.manual_seed(1)
    little = batch_loss(model, batch, 0.1, consistency=1e-9)
    torch.manual_seed(1)
    much = batch_loss(model, batch, 0.1, consistency=4.0)
    torch.manual_seed(1)
    duplicated = batch.duplicated()
    features = model.decode(duplicated.target, model.encode(duplicated.source)).features
    views = model.logits(features.flatten(0, 1)[duplicated.target_indices]).chunk(2)
    assert not torch.equal(*views)
    gap = symmetric_kl(*views, batch.labels)
    torch.testing.assert_close(much.loss - little.loss, 2 * gap)
