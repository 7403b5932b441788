import pytest
import torch

from decoding.no_waits import NoWaits
from decoding.tables import Countdown, HistoryTable, Markov, markov
from regard.batching.collate import pad_source
from regard.decoding.constraints import rules
from regard.decoding.constraints.rules import Rules
from regard.decoding.search import loop, step
from regard.decoding.search.beam import BeamSelector
from regard.decoding.search.loop import run_search
from regard.decoding.search.penalties import Penalties
from regard.decoding.search.step import SearchConfig, SearchState
from regard.decoding.settings import BeamSettings, RuleSettings
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.special_tokens import BOS, EOS

B, WORDS, S = 4, 3, 5


def config(lengths, *, size=2, beta=0.0, limit=20, stop="safe"):
    lengths = torch.tensor(lengths)
    rules = Rules(RuleSettings(max_length=limit, max_length_offset=limit), lengths)
    penalties = Penalties(BeamSettings(coverage_penalty=beta), lengths, rules.limits)
    return SearchConfig(BeamSelector(size), rules, penalties, 1, stop)


def test_finished_sentences_leave_the_batch_and_answers_stay_in_order():
    decoder = Countdown()
    found = run_search(decoder, decoder.start([5, 0, 9, 2]), config([3] * B))
    assert [h.tokens for (h,) in found] == [(4,) * n for n in (5, 0, 9, 2)]
    assert decoder.batches == [4, 3, 3, 2, 2, 2, 1, 1, 1, 1]


@pytest.mark.parametrize("stop", ["safe", "size"])
@pytest.mark.parametrize("threshold", [0.0, 0.5, 1.0])
def test_who_is_done_may_stay_a_while_and_is_not_asked_again(threshold, stop, monkeypatch):
    monkeypatch.setattr(loop, "COMPACT_BELOW", threshold)
    decoder = HistoryTable(9, WORDS, 4, sharp=2.0)
    how = config([S] * 9, size=3, limit=6, stop=stop)
    found = run_search(decoder, decoder.start(), how)
    alone = [
        run_search(decoder, decoder.start([row]), config([S], size=3, limit=6, stop=stop))[0]
        for row in range(9)
    ]
    assert found == alone


@pytest.mark.parametrize("threshold", [0.0, 1.0])
def test_who_is_cut_and_stays_a_while_keeps_its_answers_in_order(threshold, monkeypatch):
    monkeypatch.setattr(loop, "COMPACT_BELOW", threshold)
    monkeypatch.setattr(step, "is_on_cpu", lambda x: False)
    state = markov(*[{BOS: {4: 0.7, EOS: 0.3}, 4: {4: 0.8, EOS: 0.2}}] * 2)
    lengths = torch.tensor([1, 4])
    rules = Rules(RuleSettings(max_length_ratio=1.0, max_length_offset=0), lengths)
    penalties = Penalties(BeamSettings(length_penalty=1.0), lengths, rules.limits)
    found = run_search(Markov(), state, SearchConfig(BeamSelector(2), rules, penalties, 2, "limit"))
    assert [(one.tokens, one.finished) for one in found[0]] == [((), True), ((4,), False)]


def test_all_leave_at_once_where_somebody_watches():
    decoder = Countdown()
    hook = lambda site, weights: weights  # noqa: E731
    many = [0, 1, 2, 3, 4, 5, 6, 7, 8]
    run_search(decoder, decoder.start(many), config([3] * 9), hook=hook)
    assert decoder.batches == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    decoder.batches.clear()
    run_search(decoder, decoder.start(many), config([3] * 9))
    assert decoder.batches == [9, 9, 7, 6, 5, 4, 3, 2, 1]


def test_a_sentence_at_its_limit_leaves_too():
    decoder = Countdown()
    limits = RuleSettings(max_length_ratio=1.0, max_length_offset=0)
    lengths = torch.tensor([3, 6, 4, 1])
    rules = Rules(limits, lengths)
    how = SearchConfig(
        BeamSelector(2), rules, Penalties(BeamSettings(), lengths, rules.limits), 1, "safe"
    )
    found = run_search(decoder, decoder.start([9, 2, 9, 0]), how)
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

    def hook(site, weights):
        seen.append((site.part, tuple(weights.shape)))
        return weights

    for beta in (0.0, 0.5):
        seen.clear()
        run_search(
            decoder, decoder.start(), config([S], beta=beta, limit=3, stop="limit"), hook=hook
        )
        assert seen[:4] == [("cross", (1, 2, 1, S)), ("decoder", (1, 2, 1, S))] * 2
        assert seen[4] == ("cross", (1, 2, 2, S))


def test_narrow_choice_leaves_cells_empty_not_wrong():
    decoder = Countdown()
    found = run_search(decoder, decoder.start([3]), config([3], size=5))
    assert [(h.tokens, h.log_probability) for h in found[0]] == [((4, 4, 4), 0.0)]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("excluded", ["spread", "lost"])
@pytest.mark.parametrize("more", [{}, {"min_length": 2, "no_repeat_ngram": 2}])
def test_only_reading_the_done_sentences_waits_for_the_device(size, excluded, more, monkeypatch):
    for module in (step, rules):
        monkeypatch.setattr(module, "is_on_cpu", lambda x: False)
    mode = NoWaits()
    mode.allow(monkeypatch, SearchState, "done_list")
    mode.allow(monkeypatch, loop._Results, "convert")
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "width": 16, "heads": 2, "feed_forward": 16}
    model = Transformer(TransformerSettings(**sizes), 40, 40).eval()
    lengths = torch.tensor([5, 3, 2])
    settings = RuleSettings(max_length_ratio=2, max_length_offset=2, excluded=excluded, **more)
    obeyed = Rules(settings, lengths)
    penalties = Penalties(BeamSettings(), lengths, obeyed.limits)
    config = SearchConfig(BeamSelector(size), obeyed, penalties, 1, "size")
    with torch.inference_mode():
        state = model.start(model.encode(pad_source([[5, 6, 7, 8], [9, 10], [11]])))
        plain = loop.run_search(model, state, config)
        with mode:
            assert loop.run_search(model, state, config) == plain
    assert mode.seen > 100
