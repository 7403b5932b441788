import torch

from decoding.tables import HistoryTable
from regard.decoding.beam import Beam
from regard.decoding.moves import Plan, Stand, conclude, weigh
from regard.decoding.penalties import Penalties
from regard.decoding.rules import Rules
from regard.decoding.settings import BeamSettings, RuleSettings
from regard.text.special import BOS

B, WORDS, K = 4, 3, 2


def stand_of(decoder):
    lengths = torch.full((B,), 5)
    rules = Rules(RuleSettings(max_length=9), lengths)
    penalties = Penalties(BeamSettings(), lengths, rules.limits)
    plan = Plan(Beam(K), rules, penalties, 1, "limit")
    return plan, Stand.start(decoder.start(), plan)


def test_a_stand_begins_with_nothing_said():
    _, stand = stand_of(HistoryTable(B, WORDS, 3))
    assert stand.grid.tokens.tolist() == [[[BOS]]] * B
    assert stand.parents is None
    assert stand.over is None


def test_a_move_leaves_the_stand_as_it_was():
    decoder = HistoryTable(B, WORDS, 3)
    plan, stand = stand_of(decoder)
    first, again = (weigh(decoder, stand, plan, None) for _ in range(2))
    assert torch.equal(first.grid.tokens, again.grid.tokens)
    after = conclude(first, plan, None)
    assert after.grid.length == stand.grid.length + 1
    assert not after.over.any()


def test_who_is_over_is_not_heard_and_not_cut():
    decoder = HistoryTable(B, WORDS, 3, sharp=0.1)
    plan, stand = stand_of(decoder)
    everyone = torch.ones(B, dtype=torch.bool)
    some = torch.tensor([True, False, True, False])
    over = conclude(weigh(decoder, stand, plan, None), plan, some)
    assert over.over.tolist() == some.tolist()
    later = conclude(weigh(decoder, over, plan, None), plan, everyone)
    assert later.over.all()
    for mine, before in zip(later.finished, over.finished, strict=True):
        assert torch.equal(mine[some][..., : before[some].shape[-1]], before[some])
    assert later.finished.scores[~some].isfinite().all()


def test_some_sentences_stand_as_they_did():
    decoder = HistoryTable(B, WORDS, 3)
    plan, stand = stand_of(decoder)
    stand = conclude(weigh(decoder, stand, plan, None), plan, None)
    chosen = torch.tensor([3, 1])
    kept = weigh(decoder, stand.keep(chosen), plan, None)
    assert torch.equal(kept.grid.tokens, weigh(decoder, stand, plan, None).grid.tokens[chosen])
