import math

import pytest
import torch

from regard.decoding.search.hypotheses import Hypotheses
from regard.decoding.search.penalties import (
    COVERAGE_FLOOR,
    MeanAttention,
    Penalties,
    coverage_penalty,
    length_penalty,
)
from regard.decoding.settings import BeamSettings
from regard.errors import SearchError
from regard.kernels.beam_update import Candidates
from regard.types import Site

B, H, K, S = 2, 4, 3, 5


def test_length_penalty_is_the_formula():
    assert length_penalty(1, 0.6, "gnmt") == length_penalty(1, 0.6, "power") == 1.0
    assert length_penalty(7, 0.6, "gnmt") == pytest.approx(2**0.6)
    assert length_penalty(7, 0.6, "power") == pytest.approx(7**0.6)
    assert length_penalty(19, 1.0, "gnmt") == pytest.approx(4.0)
    assert length_penalty(50, 0.0, "gnmt") == length_penalty(50, 0.0, "power") == 1.0


def test_coverage_penalty_is_the_formula():
    coverage = torch.tensor([[[0.5, 1.7, 0.25], [1.0, 1.0, 0.1]]])
    got = coverage_penalty(coverage, torch.tensor([[True, True, True]]), 0.2)
    want = [[0.2 * (math.log(0.5) + math.log(0.25)), 0.2 * math.log(0.1)]]
    torch.testing.assert_close(got, torch.tensor(want))


def test_coverage_penalty_leaves_out_padding():
    coverage = torch.tensor([[[0.5, 0.0, 0.3]], [[0.5, 0.4, 0.0]]])
    real = torch.tensor([[True, False, False], [True, True, False]])
    want = [[math.log(0.5)], [math.log(0.5) + math.log(0.4)]]
    torch.testing.assert_close(coverage_penalty(coverage, real, 1.0), torch.tensor(want))


def test_position_that_had_no_attention_counts_as_the_floor():
    got = coverage_penalty(torch.zeros(1, 1, 2), torch.ones(1, 2, dtype=torch.bool), 0.5)
    assert got.item() == pytest.approx(math.log(COVERAGE_FLOOR))


def penalties(alpha, beta=0.0, limits=(6, 9)):
    beam = BeamSettings(length_penalty=alpha, coverage_penalty=beta, normalise="gnmt")
    return Penalties(beam, torch.tensor([3, 5]), limits)


def test_score():
    log_probs = torch.tensor([[-1.0, -2.0], [-3.0, float("-inf")]])
    got = penalties(0.6).score(log_probs, 7, torch.full((2, 2), -0.5))
    torch.testing.assert_close(got, log_probs / 2**0.6 - 0.5)


def test_coverage_of_a_grid_counts_the_real_positions_of_its_sentences():
    hypotheses = Hypotheses.start(B, K, torch.device("cpu")).add_coverage(
        torch.full((B, K, S), 0.5)
    )
    got = penalties(0.6, 1.0).coverage(hypotheses.select_sentences(torch.tensor([1, 0])))
    torch.testing.assert_close(got, math.log(0.5) * torch.tensor([[5.0] * K, [3.0] * K]))


def test_no_coverage_no_penalty():
    assert penalties(0.6).coverage(Hypotheses.start(B, K, torch.device("cpu"))) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.3])
def test_no_offspring_exceeds_the_bound(alpha, dtype):
    torch.manual_seed(0)
    rules = penalties(alpha)
    log_probs = -torch.rand(B, K, dtype=dtype) * 5
    hypotheses = Hypotheses.start(B, K, torch.device("cpu"))
    hypotheses = hypotheses.extend(Candidates(log_probs, torch.full((B, K), 4), None))
    bound = rules.bound(hypotheses)  # (B,)
    for sentence, limit in enumerate((6, 9)):
        for length in range(2, limit + 1):
            scores = rules.score(log_probs[sentence], length, None)
            assert (scores <= bound[sentence]).all()
        best = rules.score(log_probs[sentence], limit, None).max()
        torch.testing.assert_close(best, bound[sentence])


def test_bound_follows_its_sentence_out_of_the_batch():
    hypotheses = Hypotheses.start(B, K, torch.device("cpu"))
    hypotheses = hypotheses.extend(
        Candidates(torch.full((B, K), -1.0), torch.full((B, K), 4), None)
    )
    rules = penalties(0.6)
    assert (
        rules.bound(hypotheses.select_sentences(torch.tensor([1]))).item()
        == rules.bound(hypotheses)[1].item()
    )
    assert rules.bound(hypotheses)[0] < rules.bound(hypotheses)[1]


def test_bound_of_an_empty_grid_is_as_low_as_can_be():
    hypotheses = Hypotheses.start(B, K, torch.device("cpu"))
    candidates = Candidates(torch.full((B, K), float("-inf")), torch.full((B, K), 4), None)
    assert penalties(0.6).bound(hypotheses.extend(candidates)).tolist() == [float("-inf")] * B


def test_mean_attention_is_over_heads_and_layers_of_attention_to_the_source():
    hook = MeanAttention(None)
    first, second = torch.rand(2, B, H, K, S)
    hook(Site("cross", 0), first)
    hook(Site("decoder", 0), torch.ones(B, H, K, 7))
    assert hook(Site("cross", 1), second) is second
    torch.testing.assert_close(hook.collect(), (first + second).mean(1) / 2)
    hook(Site("cross", 0), first)
    torch.testing.assert_close(hook.collect(), first.mean(1))


def test_mean_attention_sees_what_another_watch_makes_of_it():
    hook = MeanAttention(lambda site, weights: weights * (site.layer + 1))
    weights = torch.rand(B, H, K, S)
    assert hook(Site("cross", 1), weights).equal(weights * 2)
    torch.testing.assert_close(hook.collect(), weights.mean(1) * 2)


def test_mean_attention_does_not_add_up_in_half_precision():
    hook = MeanAttention(None)
    hook(Site("cross", 0), torch.rand(B, H, K, S).bfloat16())
    assert hook.collect().dtype == torch.float32


def test_coverage_penalty_needs_attention_to_the_source():
    hook = MeanAttention(None)
    hook(Site("encoder", 0), torch.rand(B, H, K, S))
    with pytest.raises(SearchError, match="this model has none: set coverage_penalty to 0"):
        hook.collect()
