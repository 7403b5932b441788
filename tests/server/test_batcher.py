import asyncio
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from regard.errors import SearchError
from regard.server.batcher import Batcher
from regard.server.errors import RequestError
from regard.server.settings import ServerSettings
from regard.server.telemetry import ServerMetrics


class FakeTranslator:
    """Has no models: the functions of these tests need none."""

    folders = (Path("runs/secret"),)


TRANSLATOR = FakeTranslator()
ITEMS = [["apple"], ["pear", "fig"]]


@dataclass(frozen=True)
class Shout:
    """Returns items in capitals, and records its batches."""

    name: str = ""
    translator: FakeTranslator = TRANSLATOR
    batches: list = field(default_factory=list, compare=False)
    hold: threading.Event = field(default_factory=threading.Event, compare=False)

    def __call__(self, items, slots):
        assert self.hold.wait(10)
        self.batches.append(list(items))
        if "bad" in items:
            raise SearchError("runs/secret: bad is bad")
        if "worse" in items:
            raise ZeroDivisionError("worse")
        for slot, item in zip(slots, items, strict=True):
            slot.send_partial(item[:1])
        return [item.upper() for item in items]


def run_scenario(scenario, clock=time.monotonic, **settings):
    """The result of `scenario(batcher)` while the batcher runs."""

    async def run():
        server_settings = ServerSettings(**{"window": 0.01, **settings})
        batcher = Batcher("fr-en", server_settings, ServerMetrics(), clock)
        running = asyncio.create_task(batcher.run())
        try:
            return await asyncio.wait_for(scenario(batcher), 20)
        finally:
            running.cancel()
            batcher.close()

    return asyncio.run(run())


def submit(batcher, function, *items, cost=1):
    return batcher.submit(function, items, [cost] * len(items)).future


def opened(name="", translator=TRANSLATOR):
    """A function that does not hold its batches back."""
    function = Shout(name, translator)
    function.hold.set()
    return function


def test_concurrent_requests_share_a_batch():
    function = opened()

    async def scenario(batcher):
        return await asyncio.gather(*(submit(batcher, function, f"a{n}", "b") for n in range(5)))

    assert run_scenario(scenario) == [[f"A{n}", "B"] for n in range(5)]
    assert len(function.batches) == 1


def test_requests_that_arrive_during_a_batch_make_up_the_next():
    function = Shout()

    async def scenario(batcher):
        first = submit(batcher, function, "first")
        while len(batcher):
            await asyncio.sleep(0.001)
        others = [submit(batcher, function, f"x{n}") for n in range(4)]
        function.hold.set()
        return await asyncio.gather(first, *others)

    run_scenario(scenario, window=0)
    assert function.batches == [["first"], ["x0", "x1", "x2", "x3"]]


def test_after_a_batch_of_several_the_window_is_longer():
    function, now = opened(), [0.0]
    window = 600.0  # longer than the test may take: only the clock here ends one

    async def scenario(batcher):
        await asyncio.gather(*(submit(batcher, function, f"a{n}") for n in range(3)))
        again = [submit(batcher, function, "b0")]
        for number in (1, 2):
            now[0] += 1.2 * window  # longer than a window, not than three
            await asyncio.sleep(0)
            again.append(submit(batcher, function, f"b{number}"))
        await asyncio.gather(*again)

    run_scenario(scenario, lambda: now[0], window=window, batch_tokens=3)
    assert [len(batch) for batch in function.batches] == [3, 3]


def test_items_of_different_functions_are_not_in_one_batch():
    one, other = opened("one"), opened("other")

    async def scenario(batcher):
        return await asyncio.gather(
            *(
                submit(batcher, function, f"{function.name} {n}")
                for n in range(3)
                for function in (one, other)
            )
        )

    run_scenario(scenario)
    assert one.batches == [["one 0", "one 1", "one 2"]]
    assert other.batches == [["other 0", "other 1", "other 2"]]


def test_a_batch_keeps_to_its_tokens_but_is_never_empty():
    function = opened()

    async def scenario(batcher):
        await asyncio.gather(
            submit(batcher, function, *"abcdef", cost=2), submit(batcher, function, "X")
        )
        return await submit(batcher, function, "huge", cost=1000)

    assert run_scenario(scenario, batch_tokens=4) == ["HUGE"]
    assert all(
        sum(2 if item.islower() else 1 for item in one) <= 5 for one in function.batches[:-1]
    )


def test_a_request_of_many_lines_does_not_delay_one_of_few():
    function = opened()

    async def scenario(batcher):
        await asyncio.gather(
            submit(batcher, function, *[f"long {n}" for n in range(10)]),
            submit(batcher, function, "short 0", "short 1"),
        )

    run_scenario(scenario, batch_tokens=4)
    assert function.batches[0] == ["long 0", "short 0", "long 1", "short 1"]


def test_a_full_queue_gives_503_with_retry_after():
    function = Shout()

    async def scenario(batcher):
        requests = [submit(batcher, function, "x") for _ in range(3)]
        with pytest.raises(RequestError, match="3 requests wait") as refused:
            submit(batcher, function, "y")
        function.hold.set()
        await asyncio.gather(*requests)
        return refused.value

    refused = run_scenario(scenario, queue=3)
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) >= 1


def test_a_cancelled_request_is_not_translated():
    function = Shout()

    async def scenario(batcher):
        requests = [submit(batcher, function, f"x{n}") for n in range(3)]
        requests[1].cancel()
        await asyncio.sleep(0)
        assert len(batcher) == 2
        function.hold.set()
        return await asyncio.gather(*requests, return_exceptions=True)

    first, remaining, last = run_scenario(scenario)
    assert (first, last) == (["X0"], ["X2"])
    assert isinstance(remaining, asyncio.CancelledError)
    assert function.batches == [["x0", "x2"]]


def test_a_function_sees_that_a_client_disconnects_during_the_batch():
    observed, begun, remaining = [], threading.Event(), threading.Event()

    @dataclass(frozen=True)
    class Observing:
        translator: FakeTranslator = TRANSLATOR

        def __call__(self, items, slots):
            begun.set()
            assert remaining.wait(10)
            observed.extend(slot.is_waiting() for slot in slots)
            return list(items)

    async def scenario(batcher):
        waiting, leaving = submit(batcher, Observing(), "a"), submit(batcher, Observing(), "b")
        await asyncio.to_thread(begun.wait, 10)
        leaving.cancel()
        remaining.set()
        return await waiting

    assert run_scenario(scenario) == ["a"]
    assert observed == [True, False]


def test_an_error_fails_only_the_request_that_caused_it():
    function = opened()

    async def scenario(batcher):
        return await asyncio.gather(
            *(submit(batcher, function, item) for item in ("good", "bad", "fine", "worse")),
            return_exceptions=True,
        )

    good, bad, fine, worse = run_scenario(scenario)
    assert (good, fine) == (["GOOD"], ["FINE"])
    assert (bad.status_code, bad.detail) == (400, "fr-en: bad is bad")
    assert (worse.status_code, worse.detail) == (
        500,
        "internal error; see the server's log",
    )


def test_a_wrong_number_of_answers_is_an_internal_error():
    @dataclass(frozen=True)
    class Short:
        translator: FakeTranslator = TRANSLATOR

        def __call__(self, items, slots):
            return list(items)[1:]

    async def scenario(batcher):
        with pytest.raises(RequestError, match="internal error") as refused:
            await submit(batcher, Short(), "a", "b")
        return [refused.value.status_code, await submit(batcher, opened(), "c")]

    assert run_scenario(scenario) == [500, ["C"]]


def test_partial_texts_go_to_the_request_they_belong_to():
    function = opened()

    async def scenario(batcher):
        requests = [batcher.submit(function, items, [1] * len(items)) for items in ITEMS]
        await asyncio.gather(*(request.future for request in requests))
        assert all(request.changed.is_set() for request in requests)
        return [request.partial_texts for request in requests]

    assert run_scenario(scenario) == [{0: "a"}, {0: "p", 1: "f"}]


def test_a_request_without_items_is_answered_at_once():
    async def scenario(batcher):
        return await submit(batcher, Shout())

    assert run_scenario(scenario) == []


def test_requests_tokenized_by_an_old_model_are_not_mixed_with_those_of_a_new_one():
    old, new = opened(), opened(translator=FakeTranslator())

    async def scenario(batcher):
        functions = [old, new, old]
        return await asyncio.gather(
            *(submit(batcher, function, f"x{n}") for n, function in enumerate(functions))
        )

    assert run_scenario(scenario) == [["X0"], ["X1"], ["X2"]]
    assert (old.batches, new.batches) == ([["x0", "x2"]], [["x1"]])


def test_workers_translate_batches_at_the_same_time():
    meeting = threading.Barrier(2, timeout=10)

    @dataclass(frozen=True)
    class Meet(Shout):
        def __call__(self, items, slots):
            meeting.wait()
            return list(items)

    async def scenario(batcher):
        return await asyncio.gather(*(submit(batcher, Meet(name), name) for name in "ab"))

    assert run_scenario(scenario, workers=2) == [["a"], ["b"]]
