import pytest
import torch
import torch.nn.functional as F

from regard.training.loss import smoothed_cross_entropy

M, V = 5, 7


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_matches_torch(smoothing):
    logits, labels = torch.randn(M, V, dtype=torch.float64), torch.randint(V, (M,))
    loss = smoothed_cross_entropy(logits, labels, smoothing)
    want = F.cross_entropy(logits, labels, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.minimised, want)
    torch.testing.assert_close(loss.surprise, F.cross_entropy(logits, labels, reduction="sum"))


def test_low_precision_logits_are_summed_in_float32():
    loss = smoothed_cross_entropy(torch.randn(M, V).bfloat16(), torch.randint(V, (M,)), 0.1)
    assert loss.minimised.dtype == torch.float32
