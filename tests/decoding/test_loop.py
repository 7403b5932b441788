import pytest
import torch

from decoding.tables import Countdown, HistoryTable, Markov, markov
from regard.decoding import loop, moves
from regard.decoding.beam import Beam
from regard.decoding.loop import explore
from regard.decoding.moves import Plan
from regard.decoding.penalties import Penalties
from regard.decoding.rules import Rules
from regard.decoding.settings import BeamSettings, RuleSettings
from regard.text.special import BOS, EOS

B, WORDS, S = 4, 3, 5


def plan(lengths, *, size=2, beta=0.0, limit=20, stop="safe"):
    lengths = torch.tensor(lengths)
    rules = Rules(RuleSettings(max_length=limit, max_length_offset=limit), lengths)
    penalties = Penalties(BeamSettings(coverage_penalty=beta), lengths, rules.limits)
    return Plan(Beam(size), rules, penalties, 1, stop)


def test_finished_sentences_leave_the_batch_and_answers_stay_in_order():
    decoder = Countdown()
    found = explore(decoder, decoder.start([5, 0, 9, 2]), plan([3] * B), None)
    assert [h.tokens for (h,) in found] == [(4,) * n for n in (5, 0, 9, 2)]
    assert decoder.batches == [4, 3, 3, 2, 2, 2, 1, 1, 1, 1]


@pytest.mark.parametrize(("few", "batches"), [(9, [4, 4, 4, 2, 2, 2, 1, 1, 1, 1]), (0, None)])
def test_few_do_not_hurry_to_leave_a_device_that_waits_for_its_host(few, batches, monkeypatch):
    monkeypatch.setattr(loop, "is_near", lambda x: False)
    monkeypatch.setattr(loop, "FEW", few)
    decoder = Countdown()
    found = explore(decoder, decoder.start([5, 0, 9, 2]), plan([3] * B), None)
    assert [h.tokens for (h,) in found] == [(4,) * n for n in (5, 0, 9, 2)]
    assert decoder.batches == (batches or [4, 3, 3, 2, 2, 2, 1, 1, 1, 1])


@pytest.mark.parametrize("stop", ["safe", "size"])
@pytest.mark.parametrize("crowded", [0.0, 0.5, 1.0])
def test_who_is_done_may_stay_a_while_and_is_not_asked_again(crowded, stop, monkeypatch):
    monkeypatch.setattr(loop, "CROWDED", crowded)
    decoder = HistoryTable(9, WORDS, 4, sharp=2.0)
    how = plan([S] * 9, size=3, limit=6, stop=stop)
    found = explore(decoder, decoder.start(), how, None)
    alone = [
        explore(decoder, decoder.start([row]), plan([S], size=3, limit=6, stop=stop), None)[0]
        for row in range(9)
    ]
    assert found == alone


@pytest.mark.parametrize("crowded", [0.0, 1.0])
def test_who_is_cut_and_stays_a_while_keeps_its_answers_in_order(crowded, monkeypatch):
    monkeypatch.setattr(loop, "CROWDED", crowded)
    monkeypatch.setattr(moves, "is_near", lambda x: False)
    state = markov(*[{BOS: {4: 0.7, EOS: 0.3}, 4: {4: 0.8, EOS: 0.2}}] * 2)
    lengths = torch.tensor([1, 4])
    rules = Rules(RuleSettings(max_length_ratio=1.0, max_length_offset=0), lengths)
    penalties = Penalties(BeamSettings(length_penalty=1.0), lengths, rules.limits)
    found = explore(Markov(), state, Plan(Beam(2), rules, penalties, 2, "limit"), None)
    assert [(one.tokens, one.finished) for one in found[0]] == [((), True), ((4,), False)]


def test_all_leave_at_once_where_somebody_watches():
    decoder = Countdown()
    watch = lambda site, weights: weights  # noqa: E731
    many = [0, 1, 2, 3, 4, 5, 6, 7, 8]
    explore(decoder, decoder.start(many), plan([3] * 9), watch)
    assert decoder.batches == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    decoder.batches.clear()
    explore(decoder, decoder.start(many), plan([3] * 9), None)
    assert decoder.batches == [9, 9, 7, 6, 5, 4, 3, 2, 1]


def test_a_sentence_at_its_limit_leaves_too():
    decoder = Countdown()
    limits = RuleSettings(max_length_ratio=1.0, max_length_offset=0)
    lengths = torch.tensor([3, 6, 4, 1])
    rules = Rules(limits, lengths)
    how = Plan(Beam(2), rules, Penalties(BeamSettings(), lengths, rules.limits), 1, "safe")
    found = explore(decoder, decoder.start([9, 2, 9, 0]), how, None)
    assert [(len(h.tokens), h.finished) for (h,) in found] == [
        (3, False),
        (2, True),
        (4, False),
        (0, True),
    ]
    assert decoder.batches == [4, 3, 3, 1]


def test_watch_sees_every_step_and_is_shared_with_the_coverage_penalty():
    decoder = HistoryTable(1, WORDS, 3, source=S, layers=2)
    seen = []

    def watch(site, weights):
        seen.append((site.part, tuple(weights.shape)))
        return weights

    for beta in (0.0, 0.5):
        seen.clear()
        explore(decoder, decoder.start(), plan([S], beta=beta, limit=3, stop="limit"), watch)
        assert seen[:4] == [("cross", (1, 2, 1, S)), ("decoder", (1, 2, 1, S))] * 2
        assert seen[4] == ("cross", (1, 2, 2, S))


def test_narrow_choice_leaves_cells_empty_not_wrong():
    decoder = Countdown()
    found = explore(decoder, decoder.start([3]), plan([3], size=5), None)
    assert [(h.tokens, h.log_probability) for h in found[0]] == [((4, 4, 4), 0.0)]
