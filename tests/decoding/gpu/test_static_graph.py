import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from decoding.search_settings import SETTINGS
from decoding.tables import HistoryTable, assert_same
from recorders import Counted, Tape
from regard.batching.collate import pad_source
from regard.decoding import batch_search
from regard.decoding.batch_search import SearchMember, run_search, search_many
from regard.decoding.constraints import rules
from regard.decoding.constraints.rules import NO_CONSTRAINTS, Constraints
from regard.decoding.gpu import static_graph
from regard.decoding.search import step
from regard.decoding.search.step import SearchConfig
from regard.decoding.settings import DecodingSettings
from regard.kernels.cuda_graphs import CaptureError, CudaGraphs
from regard.models.contracts import Generator
from variants import V_TARGET, VARIANTS, tiny

B, S, WORDS = 9, 5, 3
BEAM = DecodingSettings.model_validate(
    {"n_best": 2, "beam": {"size": 3, "stop": "limit"}, "rules": {"max_length": 8}}
)
STATIC = [
    name
    for name in VARIANTS
    if (model := tiny(name).model).static_state
    or model.to_static.__func__ is not Generator.to_static
]
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def sentences(*lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(4, 11, (n,), generator=generator).tolist() for n in lengths]


def hold_near(models, settings, capturer, constraints=NO_CONSTRAINTS, lengths=(3, 5, 1)):
    """The same is found with a captured graph and without, up to rounding."""
    members = [SearchMember(model, sentences(*lengths)) for model in models]

    def found(one):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(batch_search, "_make_capturer", lambda settings, where: one)
            return search_many(members, settings, budget=10**6, constraints=constraints)

    for got, want in zip(found(capturer), found(None), strict=True):
        assert [(h.tokens, h.finished) for h in got] == [(h.tokens, h.finished) for h in want]
        for mine, theirs in zip(got, want, strict=True):
            assert math.isclose(mine.score, theirs.score, rel_tol=1e-4)
            assert math.isclose(mine.log_probability, theirs.log_probability, rel_tol=1e-4)


@pytest.fixture
def far(monkeypatch):
    """Take the code paths of a GPU, which never wait for the device."""
    for module in (step, rules):
        monkeypatch.setattr(module, "is_on_cpu", lambda x: False)


def model_of(name, dtype=torch.float32):
    return tiny(name, dtype=dtype).model


@pytest.mark.parametrize("name", STATIC)
@pytest.mark.parametrize("size", [1, 3])
def test_one_step_does_for_all_and_needs_no_python(name, size, far):
    capturer, model = Tape(), model_of(name)
    beam = BEAM.beam.model_copy(update={"size": size})
    hold_near([model], BEAM.model_copy(update={"beam": beam, "n_best": 1}), capturer)
    if not has_static_state(model):
        assert capturer.captured == 0
    elif size > 1:
        assert capturer.captured == 1
        assert capturer.replayed >= 5


def has_static_state(model):
    where = next(model.parameters()).device
    state = model.start(model.encode(pad_source([[4, 5]]).to(where)))
    return model.to_static(state, 1, torch.zeros((), device=where)) is not None


def test_a_beam_that_is_not_full_yet_waits_until_it_is(far):
    capturer, beam = Tape(), BEAM.beam.model_copy(update={"size": V_TARGET + 3})
    hold_near([model_of("transformer")], BEAM.model_copy(update={"beam": beam}), capturer)
    assert capturer.captured == 1


def test_models_together_if_each_has_a_static_state(far):
    capturer = Tape()
    hold_near([model_of("transformer"), model_of("rnnsearch")], BEAM, capturer)
    assert (capturer.captured, capturer.replayed > 3) == (1, True)
    hold_near([model_of("transformer"), model_of("bytenet")], BEAM, capturer)
    assert capturer.captured == 1


def suitable(chosen):
    """Settings with which a search can be captured: most have a rule that prevents it."""
    rules = {"min_length": 0, "no_repeat_ngram": 0, "max_length": 9, "max_length_offset": 3}
    beam = chosen["beam"] | {"coverage_penalty": 0.0}
    return chosen | {"rules": chosen["rules"] | rules, "beam": beam}


@hypothesis_settings(max_examples=100, deadline=None)
@given(
    chosen=st.one_of(SETTINGS, SETTINGS.map(suitable)),
    greedy=st.booleans(),
    captures=st.sampled_from([True, True, False]),
    seed=st.integers(0, 10**6),
    sharp=st.sampled_from([0.5, 2.0, 5.0]),
    prefixed=st.booleans(),
    rows=st.sampled_from([9, 20, 99]),
)
def test_whatever_is_asked_of_a_search(chosen, greedy, captures, seed, sharp, prefixed, rows):
    chosen = {name: dict(part) if name != "n_best" else part for name, part in chosen.items()}
    if greedy:
        chosen["n_best"], chosen["beam"]["size"] = 1, 1
    table = HistoryTable(B, WORDS, 4, source=S, seed=seed, sharp=sharp)
    settings = DecodingSettings.model_validate(chosen)
    prefixes = [[4, 5][: number % 3] for number in range(B)] if prefixed else None
    lengths = torch.tensor([1, 2, 3, 4, 5, 5, 4, 3, 2])
    capturer = Counted(until=math.inf if captures else 0)

    def found(one):
        config = SearchConfig.build(settings, lengths, Constraints(prefixes), range(B))
        return run_search(table, table.start(), config, capturer=one)

    wanted = found(None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(static_graph, "MAX_HYPOTHESES", rows)
        for got, want in zip(found(capturer), wanted, strict=True):
            assert_same(got, want)


class Refusing(Counted):
    def __init__(self, error):
        super().__init__()
        self.error, self.asked = error, 0

    def capture(self, work):
        self.asked += 1
        raise self.error


@pytest.mark.parametrize("error", [CaptureError, torch.OutOfMemoryError])
@pytest.mark.parametrize("name", STATIC)
@pytest.mark.parametrize("size", [1, 3])
def test_a_search_that_cannot_be_captured_continues_step_by_step(name, size, error):
    capturer = Refusing(error("no"))
    beam = BEAM.beam.model_copy(update={"size": size})
    settings = BEAM.model_copy(update={"beam": beam, "n_best": 1})
    hold_near([model_of(name)], settings, capturer, lengths=(7, 2, 4))
    assert capturer.asked <= 1  # not again at each step


@pytest.mark.parametrize(
    ("name", "value", "replayed"),
    [("MAX_HYPOTHESES", 9, 4), ("MAX_HYPOTHESES", 8, 3), ("MAX_SLOTS", 15, 4), ("MAX_SLOTS", 9, 2)],
)
def test_a_large_or_long_search_is_captured_once_it_is_small(name, value, replayed, monkeypatch):
    monkeypatch.setattr(static_graph, name, value)
    capturer = Counted()
    rules = BEAM.rules.model_copy(update={"max_length_ratio": 1.0, "max_length_offset": 0})
    settings = BEAM.model_copy(update={"rules": rules})  # so that limits are 4, 6 and 2
    hold_near([model_of("transformer")], settings, capturer, lengths=(3, 5, 1))
    assert (capturer.captured, capturer.replayed) == (1, replayed)


def test_a_search_with_a_hook_is_not_captured():
    table, capturer, seen = HistoryTable(B, WORDS, 4, source=S), Counted(), []
    config = SearchConfig.build(BEAM, torch.full((B,), 5), NO_CONSTRAINTS, range(B))
    hook = lambda site, weights: seen.append(site) or weights  # noqa: E731
    run_search(table, table.start(), config, hook=hook, capturer=capturer)
    assert capturer.captured == 0
    assert seen


@pytest.mark.parametrize(
    ("where", "more", "is_there"),
    [
        ("cuda", {}, True),
        ("cpu", {}, False),
        ("cuda", {"capture": False}, False),
        ("cuda", {"beam": {}, "sampling": {"seed": 1}}, False),
    ],
)
def test_a_gpu_has_a_capturer_where_the_host_decides_nothing(where, more, is_there, monkeypatch):
    monkeypatch.setattr(batch_search, "CudaGraphs", lambda where: "graphs")
    settings = DecodingSettings.model_validate(more)
    assert (batch_search._make_capturer(settings, torch.device(where)) == "graphs") is is_there


class CountedGraphs(CudaGraphs):
    captured = 0

    def capture(self, work):
        replay = super().capture(work)
        self.captured += 1
        return replay


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize("name", STATIC)
@pytest.mark.parametrize("size", [1, 4])
def test_graphs_find_the_same(name, size):
    model = model_of(name).to("cuda")
    beam = BEAM.beam.model_copy(update={"size": size})
    settings = BEAM.model_copy(update={"beam": beam, "n_best": 1})
    capturer = CountedGraphs(torch.device("cuda"))
    hold_near([model], settings, capturer, lengths=(3, 5, 1, 7, 2))
    assert size == 1 or capturer.captured == has_static_state(model)
