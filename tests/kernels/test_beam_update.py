from dataclasses import replace

import pytest
import torch

from decoding.tables import HistoryTable
from regard.decoding.batch_search import search
from regard.decoding.constraints.rules import Rules
from regard.decoding.search import step
from regard.decoding.search.beam import BeamSelector
from regard.decoding.search.hypotheses import Hypotheses, Penalties
from regard.decoding.search.sampling import SamplingSelector
from regard.decoding.search.step import SearchConfig, SearchState
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.kernels import beam_update, dispatch
from regard.kernels.beam_update import Candidates, NBest
from regard.kernels.dispatch import use_beam_update
from regard.text.special_tokens import BOS, EOS

B, NONE = 16, float("-inf")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(beam_update, "TOKEN_BLOCK", 4)


def given(device, cells, length, stop, *, size=3, n_best=2, sampling=False, is_done=True):
    """Candidates, a state in the middle of a search, and its configuration."""
    generator = torch.Generator().manual_seed(cells * length + size)

    def random(*shape):
        return -5 * torch.rand(shape, generator=generator)

    def draw(high, *shape):
        return torch.randint(high, shape, generator=generator)

    lengths = torch.full((B,), 6, device=device)
    rules = Rules(RuleSettings(), lengths)
    penalties = Penalties(BeamSettings(length_penalty=0.7), lengths, rules.limits)
    sampler = SamplingSelector(SamplingSettings(), size, range(B), 20, device)
    config = SearchConfig(
        sampler if sampling else BeamSelector(size), rules, penalties, n_best, stop
    )
    hypotheses = Hypotheses(
        torch.randperm(B, generator=generator).to(device),
        torch.cat([torch.full((B, cells, 1), BOS), 4 + draw(5, B, cells, length)], -1).to(device),
        random(B, cells).to(device),
    )
    count = cells if sampling or size == 1 else 2 * size
    totals = random(B, count)
    totals[::7] = NONE  # nothing is possible
    totals = totals.sort(dim=1, descending=True).values
    tokens = torch.where(draw(3, B, count) == 0, EOS, 4 + draw(5, B, count))
    parents = None if sampling or size == 1 else draw(cells, B, count).to(device)
    candidates = Candidates(totals.to(device), tokens.to(device), parents)
    scores = random(B, config.num_slots)
    scores[draw(2, B, config.num_slots) == 0] = NONE
    scores[::5] = NONE
    order = scores.sort(dim=1, descending=True).values
    texts = 4 + draw(5, B, config.num_slots, max(1, length - 2))
    known = NBest(order, random(B, config.num_slots), texts, draw(2, B, config.num_slots) == 0)
    done = (draw(3, B) == 0).to(device) if is_done else None
    search_state = SearchState(None, None, hypotheses, NBest(*(x.to(device) for x in known)), done)
    return candidates, search_state, config


def assert_same(found, wanted):
    assert torch.equal(found.hypotheses.tokens, wanted.hypotheses.tokens)
    assert torch.equal(found.hypotheses.log_probs, wanted.hypotheses.log_probs)
    assert torch.equal(found.hypotheses.sentence_index, wanted.hypotheses.sentence_index)
    assert torch.equal(found.is_done, wanted.is_done)
    assert (found.parents is None) == (wanted.parents is None)
    if found.parents is not None:
        assert torch.equal(found.parents, wanted.parents)
    for mine, theirs in zip(found.finished, wanted.finished, strict=True):
        assert torch.equal(mine, theirs)


@pytest.fixture
def far(monkeypatch):
    """As on a GPU, the host does not ask whether a hypothesis has ended."""
    monkeypatch.setattr(step, "is_on_cpu", lambda x: False)


@pytest.mark.parametrize("stop", ["safe", "size", "heuristic", "limit"])
@pytest.mark.parametrize(
    ("cells", "length", "how"),
    [
        (3, 7, {}),
        (1, 0, {"n_best": 1}),
        (5, 4, {"size": 5, "n_best": 5, "is_done": False}),
        (1, 5, {"size": 1, "n_best": 1}),
        (3, 9, {"sampling": True, "n_best": 3}),
    ],
)
def test_the_kernel_equals_the_plain_update(cells, length, how, stop, device, far):
    candidates, search_state, config = given(device, cells, length, stop, **how)
    wanted = step._update_beam(candidates, search_state, config)
    assert 0 < wanted.is_done.sum() < B
    with torch.no_grad():
        assert use_beam_update(candidates.log_probs, config.num_slots)
    assert_same(step._update_beam_fused(candidates, search_state, config), wanted)


def test_the_length_may_be_on_the_device_alone(device, far):
    candidates, search_state, config = given(device, 3, 7, "safe")
    wanted = step._update_beam(candidates, search_state, config)
    step_counter = torch.tensor(2, device=device)
    counted = replace(config, penalties=config.penalties.to_static(-2, 9, step_counter))
    assert_same(step._update_beam_fused(candidates, search_state, counted), wanted)
    assert_same(step._update_beam(candidates, search_state, counted), wanted)


def test_nan_is_neither_lost_nor_done(device, far):
    candidates, search_state, config = given(device, 3, 4, "safe", is_done=False)
    candidates.log_probs[0] = float("nan")
    candidates.tokens[0] = 5
    candidates.tokens[0, 1] = EOS
    found = step._update_beam_fused(candidates, search_state, config)
    assert found.hypotheses.log_probs[0].isnan().all()
    assert found.finished.scores[0].isnan().tolist() == [True, False]
    assert not found.is_done[0]


@pytest.mark.parametrize("size", [1, 3])
def test_a_search_finds_the_same_with_kernels_and_without(size, device, monkeypatch, far):
    table = HistoryTable(6, 5, 4, sharp=2.0)
    table.table = table.table.float().to(device)
    lengths = torch.tensor([1, 2, 3, 4, 5, 6], device=device)
    settings = DecodingSettings(beam=BeamSettings(size=size), rules=RuleSettings(max_length=7))

    def found():
        start = table.start()
        start = type(start)(start.sentences.to(device), start.codes.to(device))
        return [
            [(one.tokens, one.finished, round(one.score, 4)) for one in best]
            for best in search(table, start, lengths, settings)
        ]

    fast = found()
    monkeypatch.setattr(dispatch, "disabled", {"topk_logits", "beam_update"})
    assert found() == fast


def test_gradients_float64_and_large_beams_need_the_formula(device):
    candidates = torch.zeros(2, 6, device=device)
    assert not use_beam_update(candidates, 3)  # gradients are enabled
    with torch.no_grad():
        assert use_beam_update(candidates, 3)
        assert not use_beam_update(candidates.double(), 3)
        assert not use_beam_update(candidates, 300)
