import pytest
import torch

from decoding.tables import FIRST_WORD, Countdown, HistoryTable, Markov, assert_same, markov
from regard.decoding.batch_search import search
from regard.decoding.ensemble import Ensemble, EnsembleState
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings
from regard.errors import SearchError
from regard.text.special_tokens import BOS, EOS

B, WORDS, LIMIT, S = 3, 3, 4, 5
LENGTHS = torch.tensor([5, 3, 4])
SETTINGS = DecodingSettings(
    n_best=4,
    beam=BeamSettings(size=4, coverage_penalty=0.2),
    rules=RuleSettings(max_length=LIMIT, max_length_offset=LIMIT),
)


def test_twins_are_the_twin():
    decoder = HistoryTable(B, WORDS, LIMIT, source=S)
    want = search(decoder, decoder.start(), LENGTHS, SETTINGS)
    both = Ensemble([decoder, decoder])
    state = EnsembleState((decoder.start(), decoder.start()))
    for mine, theirs in zip(search(both, state, LENGTHS, SETTINGS), want, strict=True):
        assert_same(mine, theirs)


def test_unlike_members_average_their_probabilities():
    history = HistoryTable(1, WORDS, LIMIT)
    chain = markov({BOS: {4: 0.7, 5: 0.3}, 4: {5: 0.5, EOS: 0.5}, 5: {EOS: 1.0}})
    both = Ensemble([history, Markov()])
    state = EnsembleState((history.start(), chain))
    tokens = torch.tensor([[BOS]])
    for _ in range(2):
        apart = [
            member.step(tokens, inner)[0].softmax(-1)
            for member, inner in zip([history, Markov()], state.members, strict=True)
        ]
        logits, state = both.step(tokens, state)
        torch.testing.assert_close(logits.exp(), (apart[0] + apart[1]) / 2)
        tokens, state = torch.tensor([[4, 5]]), state.reorder(torch.tensor([[0, 0]]))


def test_members_of_unlike_states_leave_the_batch_together():
    history, countdown = HistoryTable(B, 2, LIMIT), Countdown(vocabulary=FIRST_WORD + 2)
    both = Ensemble([history, countdown])
    state = EnsembleState((history.start(), countdown.start([2, 0, 1])))
    settings = SETTINGS.model_copy(update={"beam": BeamSettings(size=1)})
    settings = settings.model_copy(update={"n_best": 1})
    found = search(both, state, LENGTHS, settings)
    assert [h.tokens for (h,) in found] == [(4, 4), (), (4,)]
    assert history.batches == countdown.batches == [3, 2, 1]


def test_half_precision_is_averaged_in_single():
    half = HistoryTable(1, WORDS, LIMIT)
    half.table = half.table.bfloat16()
    logits, _ = Ensemble([half]).step(torch.tensor([[BOS]]), EnsembleState((half.start(),)))
    assert logits.dtype == torch.float32


def test_vocabularies_must_agree():
    small, large = Countdown(vocabulary=6), Countdown(vocabulary=9)
    state = EnsembleState((small.start([1]), large.start([1])))
    with pytest.raises(SearchError, match=r"share one target vocabulary; theirs hold \[6, 9\] ids"):
        search(Ensemble([small, large]), state, LENGTHS[:1], DecodingSettings())
