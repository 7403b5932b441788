import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from decoding.no_waits import NoWaits
from decoding.search_settings import SETTINGS
from decoding.tables import assert_same
from recorders import Counted, EagerReplay, Tape
from regard.decoding import batch_search
from regard.decoding.batch_search import SearchMember, search_many
from regard.decoding.constraints import rules
from regard.decoding.constraints.rules import NO_CONSTRAINTS, Constraints
from regard.decoding.gpu import cuda_graph_cache
from regard.decoding.gpu.cuda_graph_cache import CudaGraphCache
from regard.decoding.search import step
from regard.decoding.settings import DecodingSettings
from regard.decoding.tracing.observer import SearchObserver
from regard.errors import SearchError
from regard.kernels.cuda_graphs import CudaGraphs
from variants import V_TARGET, VARIANTS, is_routed, tiny

SHORT = {"rules": {"max_length": 5}}
BEAM = DecodingSettings.model_validate({"n_best": 2, "beam": {"size": 3}} | SHORT)
GREEDY = DecodingSettings.model_validate({"beam": {"size": 1}} | SHORT)
ROOM = 1 << 30
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def sentences(*lengths, seed=0, size=11):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(4, size, (n,), generator=generator).tolist() for n in lengths]


BATCHES = [(3, 5, 1), (4, 2, 5), (4,), (2, 1, 4, 5)]
"""Lengths of sentences, all but one in a shape of four."""


def model_of(name="transformer", **how):
    return tiny(name, **how).model


def cache_of(*models, capturer=None, max_bytes=ROOM):
    return CudaGraphCache(models, V_TARGET, capturer or EagerReplay(), max_bytes)


def found(models, batch, settings, cache=None, **how):
    members = [SearchMember(model, batch) for model in models]
    return search_many(members, settings, budget=10**6, run_jobs=cache and cache.run_jobs, **how)


def hold_equal(models, cache, settings, batches=BATCHES, constraints=lambda count: NO_CONSTRAINTS):
    """For one batch after another, the same is found with replays and without."""
    for number, lengths in enumerate(batches):
        batch = sentences(*lengths, seed=number)
        how = {"constraints": constraints(len(batch))}
        plain = found(models, batch, settings, **how)
        mine = found(models, batch, settings, cache, **how)
        for got, want in zip(mine, plain, strict=True):
            assert_same(got, want)


@pytest.mark.parametrize("name", VARIANTS)
def test_replays_find_what_is_found_without_graphs(name):
    capturer, model = Counted(), model_of(name)
    hold_equal([model], cache_of(model, capturer=capturer), BEAM)
    assert capturer.replayed > capturer.captured > 2


@pytest.fixture
def far(monkeypatch):
    """Take the code paths of a GPU, which never wait for the device."""
    for module in (step, rules):
        monkeypatch.setattr(module, "is_on_cpu", lambda x: False)


@pytest.mark.parametrize("name", [name for name in VARIANTS if not is_routed(name)])
def test_no_python_is_needed_between_the_operations_of_a_step(name, far):
    capturer, model = Tape(), model_of(name)
    hold_equal([model], cache_of(model, capturer=capturer), BEAM)
    assert capturer.replayed > capturer.captured > 2


@pytest.mark.parametrize("more", [{"no_repeat_ngram": 2}, {"min_length": 3, "excluded": "lost"}])
@pytest.mark.parametrize("prefixed", [False, True])
def test_no_python_is_needed_for_the_rules_of_a_step(more, prefixed, far):
    rules = {"max_length": 5, "max_length_ratio": 1.0, "max_length_offset": 0}
    settings = DecodingSettings.model_validate({"beam": {"size": 2}, "rules": rules | more})
    models = [model_of("transformer"), model_of("rnnsearch")]
    capturer, phrases = Tape(), [[6, 6], [7]]

    def constraints(count):
        return Constraints([[4, 5][: n % 3] for n in range(count)] if prefixed else None, phrases)

    cache = cache_of(*models, capturer=capturer)
    hold_equal(models, cache, settings, BATCHES + BATCHES[:2], constraints)
    assert capturer.replayed > capturer.captured > 2


@hypothesis_settings(max_examples=15, deadline=None)
@given(
    chosen=SETTINGS,
    greedy=st.booleans(),
    prefixed=st.booleans(),
    forbidden=st.booleans(),
    members=st.integers(1, 2),
)
def test_whatever_is_asked_of_a_search(chosen, greedy, prefixed, forbidden, members):
    chosen = {name: dict(part) if name != "n_best" else part for name, part in chosen.items()}
    chosen["beam"]["coverage_penalty"] = 0.0
    if greedy:
        chosen["n_best"], chosen["beam"]["size"] = 1, 1
    settings, capturer = DecodingSettings.model_validate(chosen), Counted()
    models = [model_of("transformer"), model_of("rnnsearch")][:members]

    def constraints(count):
        prefixes = [[4, 5][: number % 3] for number in range(count)] if prefixed else None
        return Constraints(prefixes, [[6, 6], [7]] if forbidden else ())

    hold_equal(models, cache_of(*models, capturer=capturer), settings, constraints=constraints)
    assert capturer.replayed >= capturer.captured > 0


def lengths_of(answers):
    return [len(best.tokens) for (best, *_) in answers]


def test_the_first_batch_runs_the_second_is_captured_the_third_replayed():
    capturer, model = Counted(), model_of()
    cache, batch = cache_of(model, capturer=capturer), sentences(3, 5)
    seen = []
    for _ in range(3):
        found([model], batch, BEAM, cache)
        seen.append((capturer.captured, capturer.replayed))
    (none, nothing), (steps, once), (same, twice) = seen
    assert none == nothing == 0
    assert steps == once == same > 1
    assert twice == 2 * steps


def test_a_longer_search_continues_after_the_captured_steps_and_is_captured_next_time():
    capturer, model = Counted(), model_of()
    cache, seen = cache_of(model, capturer=capturer), []
    long = DecodingSettings.model_validate({"beam": {"size": 3, "stop": "limit"}} | {
        "rules": {"max_length": 9, "max_length_ratio": 1.0, "max_length_offset": 0}
    })  # fmt: skip
    for lengths in [(2, 2), (2, 1), (6, 2), (1, 2), (7, 3), (6, 1)]:
        hold_equal([model], cache, long, [lengths])
        seen.append(capturer.captured)
    assert seen == [0, 3, 3, 3, 7, 7]


def test_the_least_recently_used_graphs_are_dropped(monkeypatch):
    monkeypatch.setattr(cuda_graph_cache, "MAX_SHAPES", 2)
    capturer, model = Counted(), model_of()
    cache = cache_of(model, capturer=capturer)

    def captures(count):
        before = capturer.captured
        for seed in range(2):
            found([model], sentences(*[3] * count, seed=seed), GREEDY, cache)
        return capturer.captured - before

    assert captures(1) > 0
    assert captures(2) > 0
    assert captures(1) == 0
    assert captures(4) > 0  # in the place of those for two
    assert captures(1) == 0
    assert captures(2) > 0


class HundredBytesEach(Counted):
    """As if each captured step took 100 bytes."""

    def memory_in_use(self):
        return 100 * self.captured


def test_memory_is_bounded():
    capturer, model = HundredBytesEach(), model_of()
    cache = cache_of(model, capturer=capturer, max_bytes=250)
    hold_equal([model], cache, GREEDY, [(3, 3)] * 3)
    assert cache.bytes_held == 300  # no more than one step beyond it
    assert capturer.captured == 3
    hold_equal([model], cache, GREEDY, [(3,)] * 3)  # the others give way to it
    assert cache.bytes_held == 300
    assert capturer.captured == 6


@pytest.mark.parametrize("until", [0, 2])
def test_what_cannot_be_captured_is_searched_without_graphs_and_not_tried_again(until):
    capturer, model = Counted(until=until), model_of()
    cache = cache_of(model, capturer=capturer)
    hold_equal([model], cache, BEAM)
    assert cache.failed == "the device says no"
    assert capturer.captured == until
    assert cache.bytes_held == 0


def test_weights_may_change_in_place():
    capturer, model = Counted(), model_of()
    cache = cache_of(model, capturer=capturer)
    hold_equal([model], cache, GREEDY, [(3, 5)] * 3)
    captured, limit = capturer.captured, GREEDY.rules.max_length
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(-1.3)
    hold_equal([model], cache, GREEDY, [(3, 5)] * 3)
    assert captured <= capturer.captured <= limit  # longer answers have more steps


def test_graphs_are_dropped_if_weights_are_replaced():
    capturer, model = Counted(), model_of()
    cache = cache_of(model, capturer=capturer)
    for _ in range(2):
        found([model], sentences(3, 5), BEAM, cache)
    captured = capturer.captured
    for parameter in model.parameters():
        parameter.data = parameter.data.clone()
    found([model], sentences(3, 5), BEAM, cache)
    assert capturer.captured == captured
    found([model], sentences(3, 5), BEAM, cache)
    assert capturer.captured == 2 * captured


@pytest.mark.parametrize(
    "changed",
    [
        {"sampling": {}},
        {"beam": {"coverage_penalty": 0.1}},
        {"capture": False},
        {"beam": {"size": 600}},
    ],
)
def test_some_searches_are_not_captured(changed):
    capturer, model = Counted(), model_of()
    settings = DecodingSettings.model_validate({"rules": {"max_length": 4}} | changed)
    cache = cache_of(model, capturer=capturer)
    for _ in range(3):
        plain = found([model], sentences(3, 2, 1), settings)
        assert found([model], sentences(3, 2, 1), settings, cache) == plain
    assert capturer.captured == 0
    assert cache.failed is None


@pytest.mark.parametrize("given", [{"room": [4, 2]}, {"first": [5, 6]}])
def test_a_search_with_its_own_room_or_first_tokens_is_not_captured(given):
    capturer, model = Counted(), model_of()
    cache, batch = cache_of(model, capturer=capturer), sentences(3, 2)
    for _ in range(3):
        how = {"constraints": Constraints(**given)}
        assert found([model], batch, BEAM, cache, **how) == found([model], batch, BEAM, **how)
    assert capturer.captured == 0


def test_a_search_with_a_hook_or_an_observer_is_not_captured():
    capturer, model = Counted(), model_of()
    cache = cache_of(model, capturer=capturer)

    def hook(site, weights):
        return weights

    for how in ({"hook": hook}, {"observe": SearchObserver.__new__(SearchObserver)}) * 2:
        found([model], sentences(3, 2), BEAM, cache, **how)
    assert capturer.captured == 0


def test_sources_are_filled_up_to_what_a_model_can_read():
    model = model_of("transformer learned")  # 9 positions
    capturer = Counted()
    hold_equal([model], cache_of(model, capturer=capturer), BEAM, [(8, 2), (8, 8)])
    assert capturer.captured > 0


def test_ids_of_prefixes_are_checked_each_time():
    model = model_of()
    cache = cache_of(model)
    for _ in range(2):
        found([model], sentences(3), GREEDY, cache, constraints=Constraints([[5]]))
    with pytest.raises(ValueError, match=r"must lie in 0\.\.12"):
        found([model], sentences(3), GREEDY, cache, constraints=Constraints([[V_TARGET]]))


def test_what_does_not_fit_is_searched_for_in_halves(monkeypatch):
    model, tried, plain = model_of(), [], batch_search.search_batch
    hold_equal([model], cache := cache_of(model, max_bytes=0), BEAM, [(3,)])  # there is a graph

    def search_batch(models, job, **looking):
        tried.append(len(job.numbers))
        if len(job.numbers) > 2:
            raise torch.OutOfMemoryError("too much")
        return plain(models, job, **looking)

    monkeypatch.setattr(cuda_graph_cache, "search_batch", search_batch)
    monkeypatch.setattr(cuda_graph_cache, "MAX_CAPTURED_HYPOTHESES", 3)
    assert len(found([model], sentences(3, 5, 2, 1), BEAM, cache)) == 4
    assert tried == [4, 4, 2, 2]  # it was dropped first
    tried.clear()
    assert len(found([model], sentences(3, 5, 2, 1), BEAM, cache)) == 4
    assert tried == [4, 2, 2]


class Interrupted(Counted):
    """Ctrl-C is pressed while the third step is captured."""

    def capture(self, work):
        again = super().capture(work)
        work()
        if self.captured == 3:
            raise KeyboardInterrupt
        return again


def test_an_interrupted_capture_is_begun_anew():
    capturer, model = Interrupted(), model_of()
    cache = cache_of(model, capturer=capturer)
    found([model], sentences(3, 5), BEAM, cache)
    with pytest.raises(KeyboardInterrupt):
        found([model], sentences(3, 5), BEAM, cache)
    hold_equal([model], cache, BEAM)


def test_damaged_weights_are_reported():
    model = model_of()
    with torch.no_grad():
        next(model.parameters()).fill_(float("nan"))
    cache = cache_of(model)
    for _ in range(3):
        with pytest.raises(SearchError, match="not a number"):
            found([model], sentences(3), BEAM, cache)


class Strict(Counted):
    """No captured step may wait for the device."""

    def capture(self, work):
        def strictly():
            with NoWaits():
                work()

        return super().capture(strictly)


@pytest.mark.parametrize("name", [name for name in VARIANTS if not is_routed(name)])
def test_no_step_waits_for_the_device(name, far):
    capturer, model = Strict(), model_of(name, dtype=torch.float32)
    cache = cache_of(model, capturer=capturer)
    for seed in range(2):
        found([model], sentences(3, 5, seed=seed), BEAM, cache)
    assert capturer.replayed >= capturer.captured > 1


ALL = [(name, BEAM) for name in VARIANTS] + [("transformer", GREEDY), ("rnnsearch", GREEDY)]


@pytest.mark.gpu
@needs_cuda
@pytest.mark.parametrize(("name", "settings"), ALL)
def test_graphs_find_what_is_found_without_them(name, settings):
    where = torch.device("cuda")
    model = model_of(name, dtype=torch.float32).to(where)
    cache = cache_of(model, capturer=CudaGraphs(where))
    for number, lengths in enumerate(BATCHES + BATCHES[:3]):
        batch = sentences(*lengths, seed=number)
        plain = found([model], batch, settings)
        mine = found([model], batch, settings, cache)
        for got, want in zip(mine, plain, strict=True):
            scores = torch.tensor([[one.score for one in best] for best in (got, want)])
            torch.testing.assert_close(*scores, rtol=1e-4, atol=1e-4)
            equal = [one.tokens for one in got] == [one.tokens for one in want]
            assert equal or (scores[0].diff() > -1e-4).any()  # except for equal scores
    assert is_routed(name) or (cache.failed is None and cache.bytes_held > 0)


@pytest.mark.gpu
@needs_cuda
def test_memory_comes_back_with_the_last_graph():
    where = torch.device("cuda")
    model = model_of(dtype=torch.float32).to(where)
    cache = cache_of(model, capturer=CudaGraphs(where))
    for _ in range(2):
        for _ in range(3):
            found([model], sentences(3, 5), BEAM, cache)
        assert cache.steps > 0
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()  # so that all graphs are dropped
    assert cache.failed is None
