from dataclasses import replace

import pytest
import torch
from pydantic import ValidationError

from regard.decoding.constraints import rules as rules_module
from regard.decoding.constraints.rules import (
    MIN_LOG_PROB,
    Rules,
    forbid_phrases,
    forbid_tokens,
    min_length,
    no_repeated_ngrams,
)
from regard.decoding.search.hypotheses import Hypotheses
from regard.decoding.settings import RuleSettings
from regard.kernels.beam_update import Candidates
from regard.text.special_tokens import BOS, EOS, PAD, UNK

B, K, V = 2, 3, 8
NEG_INF = float("-inf")
LENGTHS = torch.tensor([4, 5])


def start():
    return Hypotheses.start(B, K, torch.device("cpu"))


def said(hypotheses, *words):
    for word in words:
        tokens = torch.full((len(hypotheses.sentence_index), K), word)
        hypotheses = hypotheses.extend(Candidates(hypotheses.log_probs, tokens, None))
    return hypotheses


def log_probs():
    torch.manual_seed(0)
    return torch.randn(B, K, V).log_softmax(-1)


def allowed(rules, hypotheses):
    kept_log_prob = rules(log_probs(), hypotheses)
    return [
        [{v for v in range(V) if x[v] > NEG_INF} for x in row] for row in kept_log_prob.tolist()
    ]


@pytest.mark.parametrize("excluded", ["spread", "lost"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_what_is_excluded_leaves_its_probability_to_the_rest_or_to_none(excluded, dtype):
    logits = torch.randn(B, K, V, generator=torch.Generator().manual_seed(0)).to(dtype)
    rules = Rules(RuleSettings(min_length=1, excluded=excluded), LENGTHS)
    kept_log_prob = rules.log_probs(logits.clone(), start())
    wide = logits.to(kept_log_prob.dtype)
    share = (
        torch.zeros(()) if excluded == "lost" else wide.softmax(-1)[..., EOS + 1 :].sum(-1).log()
    )
    want = wide.log_softmax(-1)[..., EOS + 1 :] - share[..., None]
    torch.testing.assert_close(kept_log_prob[..., EOS + 1 :], want)
    assert (kept_log_prob[..., : EOS + 1] == NEG_INF).all()
    assert kept_log_prob.dtype == torch.promote_types(dtype, torch.float32)


def test_limit_follows_the_source_and_never_exceeds_max_length():
    settings = RuleSettings(max_length=12, max_length_ratio=1.5, max_length_offset=3)
    assert [settings.limit(n) for n in (0, 1, 2, 5, 6, 100)] == [3, 4, 6, 10, 12, 12]


def test_limit_is_never_nothing():
    assert RuleSettings(max_length_ratio=0.0, max_length_offset=0).limit(7) == 1


def test_limits_of_a_batch():
    settings = RuleSettings(max_length_ratio=1.0, max_length_offset=2)
    assert Rules(settings, LENGTHS).limits == [6, 7]


def test_min_length_must_leave_room_for_eos():
    with pytest.raises(ValidationError, match="min_length 5 leaves no room for EOS within max_len"):
        RuleSettings(min_length=5, max_length=5)
    assert RuleSettings(min_length=4, max_length=5).min_length == 4


def test_filler_and_unknown_are_never_said():
    assert allowed(Rules(RuleSettings(), LENGTHS), start()) == [[{3, 4, 5, 6, 7}] * K] * B


def test_unknown_is_said_where_it_may_be():
    rules = Rules(RuleSettings(allow_unknown=True), LENGTHS)
    assert allowed(rules, start()) == [[{UNK, 3, 4, 5, 6, 7}] * K] * B


def test_what_is_left_is_left_as_it_was():
    before = log_probs()
    after = Rules(RuleSettings(min_length=1), LENGTHS)(before.clone(), start())
    assert after[..., EOS + 1 :].equal(before[..., EOS + 1 :])


def test_rules_act_together():
    settings = RuleSettings(min_length=3, no_repeat_ngram=1)
    rules = Rules(settings, LENGTHS, forbidden=[[7], [5, 6]])
    assert allowed(rules, start()) == [[{4, 5, 6}] * K] * B
    assert allowed(rules, said(start(), 5)) == [[{4}] * K] * B
    assert allowed(rules, said(start(), 6, 4, 4)) == [[{EOS, 5}] * K] * B


def test_prefix_is_forced_against_every_other_rule():
    settings = RuleSettings(min_length=3, no_repeat_ngram=1)
    rules = Rules(settings, LENGTHS, prefixes=[[5, 5, UNK], [6]], forbidden=[[5]])
    free = [{4, 6, 7}, {4, 7}]
    assert allowed(rules, start()) == [[{5}] * K, [{6}] * K]
    assert allowed(rules, said(start(), 5)) == [[{5}] * K, [free[0]] * K]
    assert allowed(rules, said(start(), 6, 6)) == [[{UNK}] * K, [free[1]] * K]
    assert allowed(rules, said(start(), 6, 6, 6)) == [[{3, *free[1]}] * K] * B


def test_prefix_keeps_the_probability_of_the_model():
    before = log_probs()
    after = Rules(RuleSettings(), LENGTHS, prefixes=[[], [6]])(before.clone(), start())
    assert after[1, :, 6].equal(before[1, :, 6])
    assert after[0, :, 3:].equal(before[0, :, 3:])


def test_prefix_follows_its_sentence_out_of_the_batch():
    rules = Rules(RuleSettings(), LENGTHS, prefixes=[[5], [6]])
    kept_log_prob = rules(log_probs()[1:], start().select_sentences(torch.tensor([1])))
    assert (kept_log_prob > NEG_INF).nonzero()[:, -1].tolist() == [6] * K


def test_impossible_prefix_costs_the_floor():
    before = log_probs()
    before[1, :, 6] = NEG_INF
    after = Rules(RuleSettings(), LENGTHS, prefixes=[[], [6]])(before, start())
    assert after[1, :, 6].tolist() == [MIN_LOG_PROB] * K


def test_where_nothing_is_left_the_hypothesis_may_end():
    before = log_probs()
    rules = Rules(RuleSettings(min_length=2), LENGTHS, forbidden=[[4], [5], [6], [7]])
    after = rules(before.clone(), start())
    assert (after > NEG_INF).sum(-1).tolist() == [[1] * K] * B
    assert after[..., EOS].equal(before[..., EOS])


def test_way_out_is_finite_even_where_the_model_holds_it_impossible():
    before = torch.full((B, K, V), NEG_INF)
    before[..., PAD] = 0.0
    after = Rules(RuleSettings(), LENGTHS)(before, start())
    assert after[..., EOS].tolist() == [[MIN_LOG_PROB] * K] * B
    assert after[..., PAD].tolist() == [[NEG_INF] * K] * B


def test_prefixes_must_be_as_many_as_sentences():
    with pytest.raises(ValueError, match="expected 2 prefixes, one a sentence, got 3"):
        Rules(RuleSettings(), LENGTHS, prefixes=[[], [], []])
    with pytest.raises(ValueError, match="expected 2 prefixes, one a sentence, got 0"):
        Rules(RuleSettings(), LENGTHS, prefixes=[])


@pytest.mark.parametrize("wrong", [PAD, BOS, EOS])
def test_prefix_holds_no_special_ids(wrong):
    with pytest.raises(ValueError, match=rf"prefix 1 holds the special ids \[{wrong}\]"):
        Rules(RuleSettings(), LENGTHS, prefixes=[[5], [5, wrong]])


def test_forbidden_phrase_must_hold_something():
    with pytest.raises(ValueError, match="a forbidden phrase must hold at least one id"):
        Rules(RuleSettings(), LENGTHS, forbidden=[[4], []])


@pytest.mark.parametrize("rules", [{"prefixes": [[4], [V]]}, {"forbidden": [[4, V]]}])
def test_ids_must_be_in_the_vocabulary(rules):
    with pytest.raises(
        ValueError, match=r"must lie in 0\.\.7, the decoder's vocabulary; got 4\.\.8"
    ):
        Rules(RuleSettings(), LENGTHS, **rules)(log_probs(), start())


def test_where_the_host_would_wait_an_impossible_eos_becomes_a_last_resort(monkeypatch):
    rules, given = Rules(RuleSettings(), LENGTHS), log_probs()
    given[0, 0, EOS] = NEG_INF
    asked = rules(given.clone(), start())
    monkeypatch.setattr(rules_module, "is_on_cpu", lambda x: False)
    unasked = rules(given.clone(), start())
    assert (asked[0, 0, EOS], unasked[0, 0, EOS]) == (NEG_INF, MIN_LOG_PROB)
    unasked[0, 0, EOS] = NEG_INF
    assert unasked.equal(asked)


SIZE = 9
CPU = torch.device("cpu")


def grid_of(*sentences):
    """Hypotheses with the tokens of `sentences` (B, K, t)."""
    tokens = torch.tensor([[[BOS, *generated] for generated in row] for row in sentences])
    return replace(Hypotheses.start(*tokens.shape[:2], CPU), tokens=tokens)


def forbidden(narrow, hypotheses):
    """The set of tokens that `narrow` forbids for each hypothesis."""
    log_probs = narrow(torch.zeros(*hypotheses.tokens.shape[:2], SIZE), hypotheses)
    assert log_probs.max() == 0
    return [
        [{token for token in range(SIZE) if cell[token] == float("-inf")} for cell in row]
        for row in log_probs.tolist()
    ]


def test_forbid_tokens():
    got = forbidden(forbid_tokens([0, 2], CPU), grid_of([[4], [5], [6]], [[4], [4], [4]]))
    assert got == [[{0, 2}] * K] * B


def test_min_length_forbids_eos_until_it_is_reached():
    narrow = min_length(2)
    assert forbidden(narrow, grid_of([[]])) == [[{EOS}]]
    assert forbidden(narrow, grid_of([[4]])) == [[{EOS}]]
    assert forbidden(narrow, grid_of([[4, 5]])) == [[set()]]


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("t", [0, 1, 2, 3, 8])
def test_no_repeated_ngrams_is_what_a_loop_finds(n, t):
    torch.manual_seed(10 * n + t)
    hypotheses = grid_of(*torch.randint(4, 6, (B, K, t)).tolist())

    def repeats(generated, token):
        grams = [tuple(generated[i : i + n]) for i in range(len(generated) - n + 1)]
        return tuple([*generated, token][-n:]) in grams

    want = [
        [{token for token in range(SIZE) if repeats(generated[1:], token)} for generated in row]
        for row in hypotheses.tokens.tolist()
    ]
    got = forbidden(no_repeated_ngrams(n), hypotheses)
    assert [[cell - {0} for cell in row] for row in got] == want


def test_forbid_phrases_of_all_lengths():
    narrow = forbid_phrases([[8], [4, 5], [6, 5], [4, 4, 7]], CPU)
    got = forbidden(narrow, grid_of([[4, 4], [5, 6], [7, 8]], [[4, 5], [8, 4], [6, 4]]))
    assert [[cell - {0} for cell in row] for row in got] == [
        [{8, 5, 7}, {8, 5}, {8}],
        [{8}, {8, 5}, {8, 5}],
    ]


def test_a_phrase_cannot_have_begun_before_the_first_word():
    narrow = forbid_phrases([[4, 5, 6], [8]], CPU)
    assert forbidden(narrow, grid_of([[]])) == [[{8}]]
    assert forbidden(narrow, grid_of([[5]])) == [[{8}]]
