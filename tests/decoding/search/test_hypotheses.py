import torch

from regard.decoding.search.hypotheses import Candidates, Hypotheses
from regard.text.special_tokens import BOS, EOS

NEG_INF = float("-inf")
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
    assert kept.rows.tolist() == [1]
    assert kept.tokens.equal(hypotheses.tokens[1:])
    assert kept.log_probs.equal(hypotheses.log_probs[1:])
    assert kept.coverage.equal(hypotheses.coverage[1:])


def test_going_on_passes_over_what_ends():
    candidates = Candidates(
        torch.tensor([[-1.0, -2.0, -3.0, -4.0]]),
        torch.tensor([[EOS, 5, EOS, 6]]),
        torch.tensor([[0, 0, 1, 1]]),
    )
    live = candidates.continuing(2)
    assert live.tokens.tolist() == [[5, 6]]
    assert live.parents.tolist() == [[0, 1]]
    assert live.log_probs.tolist() == [[-2.0, -4.0]]
    assert candidates.continuing(3).log_probs.tolist() == [[-2.0, -4.0, NEG_INF]]


def test_going_on_without_parents_leaves_the_cells_in_place():
    candidates = Candidates(torch.tensor([[-1.0, -2.0]]), torch.tensor([[EOS, 5]]), None)
    live = candidates.continuing(2)
    assert live.parents is None
    assert live.tokens.tolist() == [[EOS, 5]]
    assert live.log_probs.tolist() == [[NEG_INF, -2.0]]


def test_ending():
    log_probs, parents = torch.tensor([[-1.0, -2.0, -3.0]]), torch.tensor([[1, 0, 0]])
    candidates = Candidates(log_probs, torch.tensor([[7, EOS, EOS]]), parents)
    assert [x.tolist() for x in candidates.ending(2)] == [[[NEG_INF, -2.0]], [[7, EOS]], [[1, 0]]]
    assert candidates._replace(parents=None).ending(3).parents is None
