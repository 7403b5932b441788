import torch

from decoding.tables import HistoryTable
from regard.decoding.constraints.rules import Rules
from regard.decoding.search.beam import BeamSelector
from regard.decoding.search.penalties import Penalties
from regard.decoding.search.step import SearchConfig, SearchState, advance, finalize
from regard.decoding.settings import BeamSettings, RuleSettings
from regard.text.special_tokens import BOS

B, WORDS, K = 4, 3, 2


def stand_of(decoder):
    lengths = torch.full((B,), 5)
    rules = Rules(RuleSettings(max_length=9), lengths)
    penalties = Penalties(BeamSettings(), lengths, rules.limits)
    config = SearchConfig(BeamSelector(K), rules, penalties, 1, "limit")
    return config, SearchState.start(decoder.start(), config)


def test_a_stand_begins_with_nothing_said():
    _, search_state = stand_of(HistoryTable(B, WORDS, 3))
    assert search_state.hypotheses.tokens.tolist() == [[[BOS]]] * B
    assert search_state.parents is None
    assert search_state.is_done is None


def test_a_move_leaves_the_stand_as_it_was():
    decoder = HistoryTable(B, WORDS, 3)
    config, search_state = stand_of(decoder)
    first, again = (advance(decoder, search_state, config, None) for _ in range(2))
    assert torch.equal(first.hypotheses.tokens, again.hypotheses.tokens)
    after = finalize(first, config, None)
    assert after.hypotheses.length == search_state.hypotheses.length + 1
    assert not after.is_done.any()


def test_who_is_over_is_not_heard_and_not_cut():
    decoder = HistoryTable(B, WORDS, 3, sharp=0.1)
    config, search_state = stand_of(decoder)
    everyone = torch.ones(B, dtype=torch.bool)
    some = torch.tensor([True, False, True, False])
    is_done = finalize(advance(decoder, search_state, config, None), config, some)
    assert is_done.is_done.tolist() == some.tolist()
    later = finalize(advance(decoder, is_done, config, None), config, everyone)
    assert later.is_done.all()
    for mine, before in zip(later.finished, is_done.finished, strict=True):
        assert torch.equal(mine[some][..., : before[some].shape[-1]], before[some])
    assert later.finished.scores[~some].isfinite().all()


def test_some_sentences_stand_as_they_did():
    decoder = HistoryTable(B, WORDS, 3)
    config, search_state = stand_of(decoder)
    search_state = finalize(advance(decoder, search_state, config, None), config, None)
    chosen = torch.tensor([3, 1])
    kept = advance(decoder, search_state.select_sentences(chosen), config, None)
    assert torch.equal(
        kept.hypotheses.tokens,
        advance(decoder, search_state, config, None).hypotheses.tokens[chosen],
    )
