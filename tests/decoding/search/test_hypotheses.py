import pytest
import torch

from regard.decoding.search.hypotheses import (
    NEG_INF,
    Hypotheses,
    add_finished,
    continuing_candidates,
    empty_n_best,
    ending_candidates,
    fill_slots,
    select_n_best,
    to_lists,
)
from regard.errors import SearchError
from regard.kernels.beam_update import Candidates, NBest
from regard.text.special_tokens import BOS, EOS

B, K, S = 2, 3, 5


def grown():
    """A grid in which cell (b, k) said 10 b + k + 4."""
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
    again = add_finished(finished, answers([[never], [never]], [[9, 9, 9], [9, 9, 9]]))
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
