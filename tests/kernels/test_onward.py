from dataclasses import replace

import pytest
import torch

from decoding.tables import HistoryTable
from regard.decoding import moves
from regard.decoding.beam import Beam
from regard.decoding.finished import Finished
from regard.decoding.grid import Candidates, Grid
from regard.decoding.moves import Plan, Stand
from regard.decoding.penalties import Penalties
from regard.decoding.rules import Rules
from regard.decoding.sampling import Sampler
from regard.decoding.search import search
from regard.decoding.settings import BeamSettings, DecodingSettings, RuleSettings, SamplingSettings
from regard.kernels import onward
from regard.kernels.onward import Tiles, suits_onward
from regard.text.special import BOS, EOS

B, NONE = 16, float("-inf")


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(onward, "tiles", Tiles(places=4))


def given(where, cells, length, stop, *, size=3, n_best=2, sampling=False, over=True):
    """A stand in the middle of a search, ways to go on, and the plan."""
    generator = torch.Generator().manual_seed(cells * length + size)

    def random(*shape):
        return -5 * torch.rand(shape, generator=generator)

    def draw(high, *shape):
        return torch.randint(high, shape, generator=generator)

    lengths = torch.full((B,), 6, device=where)
    rules = Rules(RuleSettings(), lengths)
    penalties = Penalties(BeamSettings(length_penalty=0.7), lengths, rules.limits)
    sampler = Sampler(SamplingSettings(), size, range(B), 20, where)
    plan = Plan(sampler if sampling else Beam(size), rules, penalties, n_best, stop)
    grid = Grid(
        torch.randperm(B, generator=generator).to(where),
        torch.cat([torch.full((B, cells, 1), BOS), 4 + draw(5, B, cells, length)], -1).to(where),
        random(B, cells).to(where),
    )
    count = cells if sampling or size == 1 else 2 * size
    totals = random(B, count)
    totals[::7] = NONE  # nothing is possible
    totals = totals.sort(dim=1, descending=True).values
    tokens = torch.where(draw(3, B, count) == 0, EOS, 4 + draw(5, B, count))
    parents = None if sampling or size == 1 else draw(cells, B, count).to(where)
    ways = Candidates(totals.to(where), tokens.to(where), parents)
    scores = random(B, plan.places)
    scores[draw(2, B, plan.places) == 0] = NONE
    scores[::5] = NONE
    order = scores.sort(dim=1, descending=True).values
    texts = 4 + draw(5, B, plan.places, max(1, length - 2))
    known = Finished(order, random(B, plan.places), texts, draw(2, B, plan.places) == 0)
    done = (draw(3, B) == 0).to(where) if over else None
    stand = Stand(None, None, grid, Finished(*(x.to(where) for x in known)), done)
    return ways, stand, plan


def assert_same(found, wanted):
    assert torch.equal(found.grid.tokens, wanted.grid.tokens)
    assert torch.equal(found.grid.log_probs, wanted.grid.log_probs)
    assert torch.equal(found.grid.rows, wanted.grid.rows)
    assert torch.equal(found.done, wanted.done)
    assert (found.parents is None) == (wanted.parents is None)
    if found.parents is not None:
        assert torch.equal(found.parents, wanted.parents)
    for mine, theirs in zip(found.finished, wanted.finished, strict=True):
        assert torch.equal(mine, theirs)


@pytest.fixture
def far(monkeypatch):
    """As on a GPU, nobody asks whether anything has ended."""
    monkeypatch.setattr(moves, "is_near", lambda x: False)


@pytest.mark.parametrize("stop", ["safe", "size", "limit"])
@pytest.mark.parametrize(
    ("cells", "length", "how"),
    [
        (3, 7, {}),
        (1, 0, {"n_best": 1}),
        (5, 4, {"size": 5, "n_best": 5, "over": False}),
        (1, 5, {"size": 1, "n_best": 1}),
        (3, 9, {"sampling": True, "n_best": 3}),
    ],
)
def test_the_kernel_leads_to_the_same(cells, length, how, stop, where, far):
    ways, stand, plan = given(where, cells, length, stop, **how)
    wanted = moves._follow(ways, stand.grid, stand, plan)
    assert 0 < wanted.done.sum() < B
    with torch.no_grad():
        assert suits_onward(ways.log_probs, plan.places)
    assert_same(moves._follow_at_once(ways, stand.grid, stand, plan), wanted)


def test_the_device_may_know_the_length_alone(where, far):
    ways, stand, plan = given(where, 3, 7, "safe")
    wanted = moves._follow(ways, stand.grid, stand, plan)
    clock = torch.tensor(2, device=where)
    counted = replace(plan, penalties=plan.penalties.steady(-2, 9, clock))
    assert_same(moves._follow_at_once(ways, stand.grid, stand, counted), wanted)
    assert_same(moves._follow(ways, stand.grid, stand, counted), wanted)


def test_what_is_not_a_number_is_neither_lost_nor_done(where, far):
    ways, stand, plan = given(where, 3, 4, "safe", over=False)
    ways.log_probs[0] = float("nan")
    ways.tokens[0] = 5
    ways.tokens[0, 1] = EOS
    found = moves._follow_at_once(ways, stand.grid, stand, plan)
    assert found.grid.log_probs[0].isnan().all()
    assert found.finished.scores[0].isnan().tolist() == [True, False]
    assert not found.done[0]


@pytest.mark.parametrize("size", [1, 3])
def test_a_search_finds_the_same_with_kernels_and_without(size, where, monkeypatch):
    table = HistoryTable(6, 5, 4, sharp=2.0)
    table.table = table.table.float().to(where)
    lengths = torch.tensor([1, 2, 3, 4, 5, 6], device=where)
    settings = DecodingSettings(beam=BeamSettings(size=size), rules=RuleSettings(max_length=7))

    def found():
        start = table.start()
        start = type(start)(start.sentences.to(where), start.codes.to(where))
        return [
            [(one.tokens, one.finished, round(one.score, 4)) for one in best]
            for best in search(table, start, lengths, settings)
        ]

    fast = found()
    for module in ("choice", "onward"):
        monkeypatch.setattr(f"regard.kernels.{module}.disabled", {module})
    assert found() == fast


def test_what_it_is_not_for(where):
    ways = torch.zeros(2, 6, device=where)
    assert not suits_onward(ways, 3)  # slopes are wanted
    with torch.no_grad():
        assert suits_onward(ways, 3)
        assert not suits_onward(ways.double(), 3)
        assert not suits_onward(ways, 300)
