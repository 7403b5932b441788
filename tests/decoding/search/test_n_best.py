import pytest
import torch

from regard.decoding.search.n_best import NBest
from regard.errors import SearchError
from regard.text.special_tokens import BOS

B, N = 2, 3
CPU = torch.device("cpu")


def answers(scores, words, ended=True):
    """Finished (B, M) of these scores, all of which say the row's `words`."""
    scores = torch.tensor(scores)
    tokens = torch.tensor([[[BOS, *flat_tokens]] * scores.shape[1] for flat_tokens in words])
    return NBest(scores, scores * 2, tokens, torch.full(scores.shape, ended))


def shown(finished, count=N):
    return [[(h.tokens, h.score, h.finished) for h in row] for row in finished.to_lists(count)]


def test_free_places_hold_no_answers():
    assert NBest.empty(B, N, CPU).to_lists(N) == [[], []]


def test_add_keeps_the_best_of_both_and_their_words():
    never = float("-inf")
    finished = NBest.empty(B, N, CPU)
    finished = finished.add(answers([[-3.0, -1.0], [-2.0, never]], [[4], [5]]))
    finished = finished.add(answers([[-2.0, -4.0], [-1.0, -9.0]], [[4, 6, 7], [5, 6, 7]]))
    assert shown(finished) == [
        [((4,), -1.0, True), ((4, 6, 7), -2.0, True), ((4,), -3.0, True)],
        [((5, 6, 7), -1.0, True), ((5,), -2.0, True), ((5, 6, 7), -9.0, True)],
    ]
    assert finished.log_probs.equal(finished.scores * 2)


def test_of_equals_the_one_that_was_there_stays():
    finished = NBest.empty(1, 1, CPU).add(answers([[-1.0]], [[4]]))
    assert shown(finished.add(answers([[-1.0]], [[5, 6]]))) == [[((4,), -1.0, True)]]


def test_fill_takes_free_places_only():
    finished = NBest.empty(B, N, CPU).add(answers([[-5.0, -6.0], [-7.0, -8.0]], [[4], [5]]))
    finished = finished.fill(answers([[-2.0, -1.0], [-3.0, -4.0]], [[4, 6], [5, 6]], ended=False))
    assert shown(finished) == [
        [((4,), -5.0, True), ((4,), -6.0, True), ((4, 6), -1.0, False)],
        [((5,), -7.0, True), ((5,), -8.0, True), ((5, 6), -3.0, False)],
    ]


def test_what_was_filled_in_stays_behind_what_ended():
    never = float("-inf")
    finished = NBest.empty(B, N, CPU).add(answers([[-5.0, never], [never, never]], [[4], [5]]))
    finished = finished.fill(answers([[-2.0, -1.0], [-3.0, never]], [[4, 6], [5, 6]], ended=False))
    again = finished.add(answers([[never], [never]], [[9, 9, 9], [9, 9, 9]]))
    assert shown(again) == shown(finished) == [
        [((4,), -5.0, True), ((4, 6), -1.0, False), ((4, 6), -2.0, False)],
        [((5, 6), -3.0, False)],
    ]  # fmt: skip


def test_keep_picks_sentences():
    finished = NBest.empty(B, N, CPU).add(answers([[-5.0], [-7.0]], [[4], [5]]))
    assert shown(finished.select_sentences(torch.tensor([1]))) == [[((5,), -7.0, True)]]


def test_no_more_than_asked_for():
    finished = NBest.empty(B, N, CPU).add(answers([[-5.0, -6.0], [-7.0, -8.0]], [[4], [5]]))
    assert [len(row) for row in finished.to_lists(1)] == [1, 1]


def test_precision_follows_what_comes_in():
    new = answers([[-5.0], [-7.0]], [[4], [5]])
    new = new._replace(scores=new.scores.double(), log_probs=new.log_probs.double())
    assert NBest.empty(B, N, CPU).add(new).scores.dtype == torch.float64


def test_not_a_number_is_an_error():
    finished = NBest.empty(1, 2, CPU).add(answers([[-5.0, float("nan")]], [[4]]))
    with pytest.raises(SearchError, match=r"not a number \(NaN\).*try float32"):
        finished.to_lists(1)
