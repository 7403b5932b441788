import numpy as np
import pytest

from regard.evaluation.mean_losses import MeanLoss, MeanPerplexity, compare_losses

RANDOM = np.random.default_rng(1)
LOSSES = RANDOM.exponential(size=200)


def test_a_smaller_loss_is_found_and_an_equal_one_is_not():
    better = LOSSES - 0.3 + RANDOM.normal(0, 0.1, 200)
    found = compare_losses(LOSSES, better, MeanLoss("mse", "window"))
    assert found.first == pytest.approx(LOSSES.mean())
    assert found.delta == pytest.approx(better.mean() - LOSSES.mean())
    assert found.interval.high < 0
    assert found.wins == 1
    assert found.p_value < 0.01
    assert found.signature == "per:window|bs:1000|seed:12345"
    same = compare_losses(LOSSES, LOSSES, MeanLoss("mse", "window"))
    assert (same.delta, same.p_value) == (0.0, 1.0)


def test_a_perplexity_is_that_of_all_tokens_whatever_the_blocks():
    for block in (1, 64, 300):
        found = compare_losses(LOSSES, LOSSES + 0.1, MeanPerplexity("ppl", "token"), block=block)
        assert found.first == pytest.approx(np.exp(LOSSES.mean()))
        assert found.second == pytest.approx(np.exp(LOSSES.mean() + 0.1))
