import torch

from decoding.tables import HistoryTable
from regard.decoding.constraints.rules import Rules
from regard.decoding.search.beam import BeamSelector
from regard.decoding.search.hypotheses import Penalties
from regard.decoding.search.step import SearchConfig, SearchState, advance, truncate
from regard.decoding.settings import BeamSettings, RuleSettings
from regard.text.special_tokens import BOS

B, WORDS, K = 4, 3, 2


def started(decoder):
    lengths = torch.full((B,), 5)
    rules = Rules(RuleSettings(max_length=9), lengths)
    penalties = Penalties(BeamSettings(), lengths, rules.limits)
    config = SearchConfig(BeamSelector(K), rules, penalties, 1, "limit")
    return config, SearchState.start(decoder.start(), config)


def test_a_search_starts_with_bos_alone():
    _, search_state = started(HistoryTable(B, WORDS, 3))
    assert search_state.hypotheses.tokens.tolist() == [[[BOS]]] * B
    assert search_state.parents is None
    assert search_state.is_done is None


def test_a_step_does_not_change_the_state_it_starts_from():
    decoder = HistoryTable(B, WORDS, 3)
    config, before = started(decoder)
    first, again = (advance(decoder, before, config, None).search_state for _ in range(2))
    assert torch.equal(first.hypotheses.tokens, again.hypotheses.tokens)
    assert first.hypotheses.length == before.hypotheses.length + 1
    assert not any(first.done_list())


def test_done_sentences_get_no_more_results_and_are_not_truncated_again():
    decoder = HistoryTable(B, WORDS, 3, sharp=0.1)
    config, search_state = started(decoder)
    everyone, some = torch.ones(B, dtype=torch.bool), torch.tensor([True, False, True, False])
    before = truncate(advance(decoder, search_state, config, None).search_state, some, config, None)
    assert before.done_list() == some.tolist()
    later = truncate(advance(decoder, before, config, None).search_state, everyone, config, some)
    assert all(later.done_list())
    for new, old in zip(later.finished, before.finished, strict=True):
        assert torch.equal(new[some][..., : old[some].shape[-1]], old[some])
    assert later.finished.scores[~some].isfinite().all()


def test_a_step_of_some_sentences_is_that_of_all():
    decoder = HistoryTable(B, WORDS, 3)
    config, search_state = started(decoder)
    search_state = advance(decoder, search_state, config, None).search_state
    chosen = torch.tensor([3, 1])
    some = advance(decoder, search_state.select_sentences(chosen), config, None).search_state
    everyone = advance(decoder, search_state, config, None).search_state
    assert torch.equal(some.hypotheses.tokens, everyone.hypotheses.tokens[chosen])
