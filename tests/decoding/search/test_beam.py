import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pydantic import ValidationError

from decoding.tables import (
    FIRST_WORD,
    GNMT,
    POWER,
    HistoryTable,
    Markov,
    assert_same,
    exhaustive,
    markov,
    space,
)
from regard.decoding.batch_search import search
from regard.decoding.constraints.rules import Constraints
from regard.decoding.search.beam import (
    CPU_CHUNK_FROM,
    BeamSelector,
    stable_topk,
)
from regard.decoding.search.hypotheses import (
    Hypotheses,
    continuing_candidates,
    ending_candidates,
)
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.text.special_tokens import BOS, EOS, UNK

B, WORDS, LIMIT, S = 2, 3, 4, 5
LENGTHS = torch.tensor([5, 3])
CPU = torch.device("cpu")


def decoding(n_best=1, *, rules=None, scored=POWER, stop="safe", **beam):
    normalise, excluded = scored
    rules = {"max_length": LIMIT, "max_length_offset": LIMIT, "excluded": excluded} | (rules or {})
    return DecodingSettings(
        n_best=n_best,
        beam=BeamSettings(normalise=normalise, stop=stop, **beam),
        rules=RuleSettings.model_validate(rules),
    )


@pytest.mark.parametrize("n_best", [1, 4, 121])
@pytest.mark.parametrize("scored", [POWER, GNMT])
@pytest.mark.parametrize(("alpha", "beta"), [(0.0, 0.0), (0.6, 0.0), (1.0, 0.4), (0.0, 2.0)])
def test_a_beam_as_wide_as_the_space_is_exhaustive(alpha, beta, scored, n_best):
    decoder = HistoryTable(B, WORDS, LIMIT, source=S)
    size = space(WORDS, LIMIT)
    assert size == 121
    penalties = {"length_penalty": alpha, "coverage_penalty": beta}
    settings = decoding(n_best, size=size, scored=scored, **penalties)
    found = search(decoder, decoder.start(), LENGTHS, settings)
    for sentence, length in enumerate(LENGTHS.tolist()):
        how = {"alpha": alpha, "beta": beta, "length": length, "scored": scored}
        want = exhaustive(decoder, sentence, LIMIT, n_best, **how)
        assert_same(found[sentence], want)


def shortest_is_two(said):
    return range(EOS if len(said) >= 2 else FIRST_WORD, FIRST_WORD + WORDS)


def no_bigram_twice(said):
    pairs = list(itertools.pairwise(said))
    words = [w for w in range(FIRST_WORD, FIRST_WORD + WORDS) if (*said[-1:], w) not in pairs]
    return [EOS, *words]


def without_phrases(said):
    words = [w for w in (5, 6) if (said[-1:], w) != ((5,), 6)]
    return [EOS, *words]


def begins_with_six_four(said):
    return (6, 4)[len(said) : len(said) + 1] or range(EOS, FIRST_WORD + WORDS)


def may_be_unknown(said):
    return [UNK, *range(EOS, FIRST_WORD + WORDS)]


@pytest.mark.parametrize(
    ("allowed", "rules", "asked"),
    [
        (shortest_is_two, {"min_length": 2}, {}),
        (no_bigram_twice, {"no_repeat_ngram": 2}, {}),
        (without_phrases, {}, {"forbidden": [[4], [5, 6]]}),
        (begins_with_six_four, {}, {"prefixes": [[6, 4]]}),
        (may_be_unknown, {"allow_unknown": True}, {}),
    ],
)
@pytest.mark.parametrize(("n_best", "scored"), [(1, POWER), (30, POWER), (30, GNMT)])
def test_a_beam_as_wide_as_the_space_is_exhaustive_under_rules(
    allowed, rules, asked, n_best, scored
):
    decoder = HistoryTable(1, WORDS, LIMIT, source=S, seed=3)
    settings = decoding(n_best, size=space(WORDS + 1, LIMIT), rules=rules, scored=scored)
    (found,) = search(
        decoder, decoder.start(), LENGTHS[:1], settings, constraints=Constraints(**asked)
    )
    how = {"allowed": allowed, "alpha": 0.6, "scored": scored}
    assert_same(found, exhaustive(decoder, 0, LIMIT, n_best, **how))


def test_sentences_have_limits_of_their_own():
    decoder = HistoryTable(B, WORDS, LIMIT, source=S)
    rules = {"max_length": 9, "max_length_ratio": 1.0, "max_length_offset": 0}
    size = space(WORDS, LIMIT)
    settings = decoding(size, size=size, rules=rules)
    found = search(decoder, decoder.start(), torch.tensor([2, LIMIT]), settings)
    assert_same(found[0], exhaustive(decoder, 0, 2, size, alpha=0.6))
    assert_same(found[1], exhaustive(decoder, 1, LIMIT, size, alpha=0.6))


def greedy_by_hand(decoder, sentence, limit):
    said = ()
    while len(said) < limit:
        row = decoder.table[sentence, decoder.row(said)].clone()
        row[:EOS] = float("-inf")
        token = int(row.argmax())
        if token == EOS:
            return said, True
        said = (*said, token)
    return said, False


def test_size_one_is_greedy():
    decoder = HistoryTable(40, WORDS, LIMIT)
    found = search(decoder, decoder.start(), torch.full((40,), 5), decoding(size=1))
    want = [greedy_by_hand(decoder, sentence, LIMIT) for sentence in range(40)]
    assert [(h.tokens, h.finished) for (h,) in found] == want
    assert {finished for _, finished in want} == {True, False}


def test_greedy_search_stands_by_its_choice():
    table = {BOS: {EOS: 0.6, 4: 0.4}, 4: {EOS: 1.0}}
    how = {"length_penalty": 5.0}  # under which (4,) scores better
    (greedy,) = search(Markov(), markov(table), LENGTHS[:1], decoding(size=1, **how))
    (beam,) = search(Markov(), markov(table), LENGTHS[:1], decoding(size=2, **how))
    assert (greedy[0].tokens, beam[0].tokens) == ((), (4,))


@hypothesis_settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(2, 6),
    n_best=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 3.0]),
    beta=st.sampled_from([0.0, 0.3]),
    sharp=st.sampled_from([0.3, 1.0, 4.0]),
    scored=st.sampled_from([POWER, GNMT]),
)
def test_stopping_early_changes_nothing(seed, size, n_best, alpha, beta, sharp, scored):
    decoder = HistoryTable(B, WORDS, LIMIT, source=S, seed=seed, sharp=sharp)
    how = {"size": size, "length_penalty": alpha, "coverage_penalty": beta, "scored": scored}
    how["rules"] = {"max_length": 9, "max_length_offset": 9}
    n_best = min(n_best, size)
    found = search(decoder, decoder.start(), LENGTHS, decoding(n_best, **how))
    want = search(decoder, decoder.start(), LENGTHS, decoding(n_best, **how, stop="limit"))
    assert found == want
    for answers in found:
        assert len({h.tokens for h in answers}) == len(answers) == n_best


CHAIN = {BOS: {4: 0.6, 5: 0.4}, 4: {EOS: 0.5, 4: 0.5}, 5: {EOS: 0.9, 5: 0.1}}


def test_safe_stopping_saves_steps():
    steps = {}
    for stop, patience in (("safe", 1), ("size", 1), ("size", 1.5), ("size", 2), ("limit", 1)):
        decoder = HistoryTable(1, WORDS, 2, sharp=0.0)
        decoder.table[:] = torch.tensor([-50.0, -50, -50, 2, 1, 2, 3]).double()
        rules = {"max_length": 30, "max_length_offset": 30}
        how = {"stop": stop, "patience": patience, "rules": rules, "scored": GNMT}
        search(decoder, decoder.start(), LENGTHS[:1], decoding(size=2, **how))
        steps[stop, patience] = len(decoder.batches)
    # Ending at once scores -1.626; the likeliest token adds -0.626, over lp(30) = 2.88.
    rushed = {("size", 1): 2, ("size", 1.5): 5, ("size", 2): 6}
    assert steps == {("safe", 1): 8, **rushed, ("limit", 1): 30}


def test_stopping_at_size_may_miss_what_safe_stopping_finds():
    table = {
        BOS: {4: 0.5, EOS: 0.3, 5: 0.2},
        4: {EOS: 0.3, 6: 0.7},
        5: {EOS: 1.0},
        6: {6: 0.98, EOS: 0.02},
    }
    rules = {"max_length": 40, "max_length_offset": 40}
    how = {"size": 2, "length_penalty": 1.0, "rules": rules, "scored": GNMT}
    state = markov(table)
    (safe,) = search(Markov(), state, LENGTHS[:1], decoding(**how))
    (quick,) = search(Markov(), state, LENGTHS[:1], decoding(**how, stop="size"))
    assert quick[0].tokens == ()
    assert safe[0].score > quick[0].score


def test_of_equals_the_first_parent_and_the_first_token_win():
    state = markov({BOS: {}, **{token: {} for token in range(7)}})
    rules = {"max_length": 2, "max_length_offset": 2, "min_length": 1}
    (found,) = search(Markov(), state, LENGTHS[:1], decoding(4, size=4, rules=rules))
    assert [h.tokens for h in found] == [(4,), (4, 4), (4, 5), (4, 6)]


def test_an_ending_counts_only_among_the_best():
    log_probs = torch.tensor([[[-9.0, -9, -9, -1.5, -1, -2, -3]]])  # EOS is second
    candidates = BeamSelector(2)(log_probs, Hypotheses.start(1, 1, CPU))
    assert candidates.tokens.tolist() == [[4, EOS, 5, 6]]
    assert ending_candidates(candidates, 2).tokens.tolist() == [[4, EOS]]
    assert continuing_candidates(candidates, 2).tokens.tolist() == [[4, 5]]


@pytest.mark.parametrize("size", [1, 3])
def test_batch_and_neighbours_change_nothing(size):
    decoder = HistoryTable(9, WORDS, LIMIT, source=S, sharp=2.0)
    lengths = torch.tensor([5, 3, 4, 1, 2, 5, 3, 4, 2])
    settings = decoding(size, size=size, coverage_penalty=0.3)
    alone = [search(decoder, decoder.start([n]), lengths[n : n + 1], settings)[0] for n in range(9)]
    assert search(decoder, decoder.start(), lengths, settings) == alone
    order = [4, 8, 0, 2, 7, 1]
    some = search(decoder, decoder.start(order), lengths[order], settings)
    assert some == [alone[n] for n in order]


def test_the_decoders_own_logits_stay_as_they_are():
    state = markov(CHAIN)
    before = state.tables.clone()
    search(Markov(), state, LENGTHS[:1], decoding(size=3, rules={"min_length": 1}))
    assert state.tables.equal(before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_precision_of_the_sum(dtype):
    (found,) = search(Markov(), markov(CHAIN, dtype=dtype), LENGTHS[:1], decoding(size=3))
    assert found[0].tokens == (5,)
    tolerance = {torch.float32: 1e-6, torch.float64: 1e-7, torch.bfloat16: 1e-2}[dtype]
    assert found[0].log_probability == pytest.approx(torch.tensor(0.36).log().item(), abs=tolerance)


def test_settings_out_of_range():
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        BeamSettings(size=0)
    with pytest.raises(ValidationError, match="less than or equal to 1000"):
        BeamSettings(size=100_000)
    with pytest.raises(ValidationError, match="greater than or equal to 0"):
        BeamSettings(length_penalty=-0.1)


@pytest.mark.parametrize(
    ("n", "k"),
    [(1, 1), (7, 7), (7, 3), (513, 1), (9001, 1), (1000, 10), (1013, 2), (9001, 3)],
)
@pytest.mark.parametrize("kinds", [2, 300, 5000, 10**6])
def test_is_the_beginning_of_a_stable_sort(n, k, kinds):
    torch.manual_seed(n + k)
    rows = torch.randint(kinds, (3, n)).float()
    rows[0, ::2] = float("-inf")
    want = rows.sort(dim=1, descending=True, stable=True)
    got = stable_topk(rows, k)
    assert got.values.tolist() == want.values[:, :k].tolist()
    assert got.indices.tolist() == want.indices[:, :k].tolist()


@pytest.mark.parametrize("n", [81, 322, 8003])
@pytest.mark.parametrize("kinds", [2, 300, 10**6])
def test_many_rows_are_narrowed_down_to_the_same(n, kinds):
    torch.manual_seed(n)
    rows = torch.randint(kinds, (CPU_CHUNK_FROM // 80 + 1, n)).float()
    want = rows.sort(dim=1, descending=True, stable=True)
    got = stable_topk(rows, 10)
    assert torch.equal(got.values, want.values[:, :10])
    assert torch.equal(got.indices, want.indices[:, :10])


def test_rows_that_are_all_alike_are_taken_in_order():
    got = stable_topk(torch.full((2, 500), float("-inf")), 4)
    assert got.indices.tolist() == [[0, 1, 2, 3]] * 2


def test_not_a_number_is_not_hidden():
    rows = torch.zeros(1, 300)
    rows[0, 217] = float("nan")
    assert stable_topk(rows, 2).indices[0, 0] == 217
