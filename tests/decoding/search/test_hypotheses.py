import math

import pytest
import torch

from regard.decoding.search.hypotheses import (
    COVERAGE_FLOOR,
    NEG_INF,
    Hypotheses,
    MeanAttention,
    Penalties,
    add_finished,
    continuing_candidates,
    coverage_penalty,
    empty_n_best,
    ending_candidates,
    fill_slots,
    length_penalty,
    select_n_best,
    to_lists,
)
from regard.decoding.settings import BeamSettings
from regard.errors import SearchError
from regard.kernels.beam_update import Candidates, NBest
from regard.text.special_tokens import BOS, EOS
from regard.types import Site

B, K, S = 2, 3, 5


def grown():
    """Hypotheses of which (b, k) has the token 10 b + k + 4."""
    hypotheses = Hypotheses.start(B, K, torch.device("cpu"))
    tokens = torch.tensor([[4, 5, 6], [14, 15, 16]])
    return hypotheses.extend(Candidates(-tokens.float(), tokens, None))


def test_start_has_said_nothing():
    hypotheses = Hypotheses.start(B, K, torch.device("cpu"))
    assert hypotheses.length == 0
    assert hypotheses.tokens.tolist() == [[[BOS]] * K] * B
    assert hypotheses.log_probs.tolist() == [[0.0] * K] * B


def test_grow_follows_the_parents_with_words_and_coverage():
    hypotheses = grown().add_coverage(torch.arange(B * K * S).float().view(B, K, S))
    parents = torch.tensor([[2, 0, 0, 1], [1, 1, 2, 0]])
    tokens, log_probs = torch.arange(20, 28).view(B, 4), torch.arange(-8.0, 0.0).view(B, 4)
    after = hypotheses.extend(Candidates(log_probs, tokens, parents))
    assert after.length == 2
    assert after.tokens[0].tolist() == [[BOS, 6, 20], [BOS, 4, 21], [BOS, 4, 22], [BOS, 5, 23]]
    assert after.coverage[1, 2].tolist() == hypotheses.coverage[1, 2].tolist()
    assert after.coverage[0, 0].tolist() == hypotheses.coverage[0, 2].tolist()
    assert after.log_probs.equal(log_probs)


def test_cover_adds_up():
    first, second = torch.rand(2, B, K, S)
    assert grown().add_coverage(first).add_coverage(second).coverage.equal(first + second)


def test_keep_keeps_all_that_belongs_to_a_sentence():
    hypotheses = grown().add_coverage(torch.rand(B, K, S))
    kept = hypotheses.select_sentences(torch.tensor([1]))
    assert kept.sentence_index.tolist() == [1]
    assert kept.tokens.equal(hypotheses.tokens[1:])
    assert kept.log_probs.equal(hypotheses.log_probs[1:])
    assert kept.coverage.equal(hypotheses.coverage[1:])


def test_going_on_passes_over_what_ends():
    candidates = Candidates(
        torch.tensor([[-1.0, -2.0, -3.0, -4.0]]),
        torch.tensor([[EOS, 5, EOS, 6]]),
        torch.tensor([[0, 0, 1, 1]]),
    )
    live = continuing_candidates(candidates, 2)
    assert live.tokens.tolist() == [[5, 6]]
    assert live.parents.tolist() == [[0, 1]]
    assert live.log_probs.tolist() == [[-2.0, -4.0]]
    assert continuing_candidates(candidates, 3).log_probs.tolist() == [[-2.0, -4.0, NEG_INF]]


def test_going_on_without_parents_leaves_the_cells_in_place():
    candidates = Candidates(torch.tensor([[-1.0, -2.0]]), torch.tensor([[EOS, 5]]), None)
    live = continuing_candidates(candidates, 2)
    assert live.parents is None
    assert live.tokens.tolist() == [[EOS, 5]]
    assert live.log_probs.tolist() == [[NEG_INF, -2.0]]


def test_ending():
    log_probs, parents = torch.tensor([[-1.0, -2.0, -3.0]]), torch.tensor([[1, 0, 0]])
    candidates = Candidates(log_probs, torch.tensor([[7, EOS, EOS]]), parents)
    assert [x.tolist() for x in ending_candidates(candidates, 2)] == [
        [[NEG_INF, -2.0]],
        [[7, EOS]],
        [[1, 0]],
    ]
    assert ending_candidates(candidates._replace(parents=None), 3).parents is None


B, N = 2, 3
CPU = torch.device("cpu")


def answers(scores, words, ended=True):
    """Finished (B, M) of these scores, all of which say the row's `words`."""
    scores = torch.tensor(scores)
    tokens = torch.tensor([[[BOS, *flat_tokens]] * scores.shape[1] for flat_tokens in words])
    return NBest(scores, scores * 2, tokens, torch.full(scores.shape, ended))


def shown(finished, count=N):
    return [[(h.tokens, h.score, h.finished) for h in row] for row in to_lists(finished, count)]


def test_free_places_hold_no_answers():
    assert to_lists(empty_n_best(B, N, CPU), N) == [[], []]


def test_add_keeps_the_best_of_both_and_their_words():
    never = float("-inf")
    finished = empty_n_best(B, N, CPU)
    finished = add_finished(finished, answers([[-3.0, -1.0], [-2.0, never]], [[4], [5]]))
    finished = add_finished(finished, answers([[-2.0, -4.0], [-1.0, -9.0]], [[4, 6, 7], [5, 6, 7]]))
    assert shown(finished) == [
        [((4,), -1.0, True), ((4, 6, 7), -2.0, True), ((4,), -3.0, True)],
        [((5, 6, 7), -1.0, True), ((5,), -2.0, True), ((5, 6, 7), -9.0, True)],
    ]
    assert finished.log_probs.equal(finished.scores * 2)


def test_of_equals_the_one_that_was_there_stays():
    finished = add_finished(empty_n_best(1, 1, CPU), answers([[-1.0]], [[4]]))
    assert shown(add_finished(finished, answers([[-1.0]], [[5, 6]]))) == [[((4,), -1.0, True)]]


def test_fill_takes_free_places_only():
    finished = add_finished(
        empty_n_best(B, N, CPU), answers([[-5.0, -6.0], [-7.0, -8.0]], [[4], [5]])
    )
    finished = fill_slots(
        finished, answers([[-2.0, -1.0], [-3.0, -4.0]], [[4, 6], [5, 6]], ended=False)
    )
    assert shown(finished) == [
        [((4,), -5.0, True), ((4,), -6.0, True), ((4, 6), -1.0, False)],
        [((5,), -7.0, True), ((5,), -8.0, True), ((5, 6), -3.0, False)],
    ]


def test_what_was_filled_in_stays_behind_what_ended():
    never = float("-inf")
    finished = add_finished(
        empty_n_best(B, N, CPU), answers([[-5.0, never], [never, never]], [[4], [5]])
    )
    finished = fill_slots(
        finished, answers([[-2.0, -1.0], [-3.0, never]], [[4, 6], [5, 6]], ended=False)
    )
    done = torch.ones(B, dtype=torch.bool)
    again = add_finished(finished, answers([[never], [never]], [[9, 9, 9], [9, 9, 9]]), done)
    assert shown(again) == shown(finished) == [
        [((4,), -5.0, True), ((4, 6), -1.0, False), ((4, 6), -2.0, False)],
        [((5, 6), -3.0, False)],
    ]  # fmt: skip


def test_keep_picks_sentences():
    finished = add_finished(empty_n_best(B, N, CPU), answers([[-5.0], [-7.0]], [[4], [5]]))
    assert shown(select_n_best(finished, torch.tensor([1]))) == [[((5,), -7.0, True)]]


def test_no_more_than_asked_for():
    finished = add_finished(
        empty_n_best(B, N, CPU), answers([[-5.0, -6.0], [-7.0, -8.0]], [[4], [5]])
    )
    assert [len(row) for row in to_lists(finished, 1)] == [1, 1]


def test_precision_follows_what_comes_in():
    new = answers([[-5.0], [-7.0]], [[4], [5]])
    new = new._replace(scores=new.scores.double(), log_probs=new.log_probs.double())
    assert add_finished(empty_n_best(B, N, CPU), new).scores.dtype == torch.float64


def test_not_a_number_is_an_error():
    finished = add_finished(empty_n_best(1, 2, CPU), answers([[-5.0, float("nan")]], [[4]]))
    with pytest.raises(SearchError, match=r"not a number \(NaN\).*try float32"):
        to_lists(finished, 1)


H = 4


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
