import asyncio
import random
import threading
import time
from collections import Counter
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
NEVER = float("inf")
ITEMS = [["apple"], ["pear", "fig"]]


@dataclass(frozen=True)
class Shout:
    """Returns items in capitals, and records its batches."""

    name: str = ""
    translator: FakeTranslator = TRANSLATOR
    kind: str = "any"
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


def submit(batcher, function, *items, cost=1, deadline=NEVER):
    return batcher.submit(function, items, [cost] * len(items), deadline).future


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

        kind: str = "any"

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
        kind: str = "any"

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
        requests = [batcher.submit(function, items, [1] * len(items), NEVER) for items in ITEMS]
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


@dataclass(frozen=True)
class Echo:
    """Returns its items; on a virtual loop, after the seconds that these cost."""

    name: str = ""
    translator: FakeTranslator = TRANSLATOR
    kind: str = "any"

    def __call__(self, items, slots):
        return list(items)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Does not wait: its clock goes on. A batch takes 0.02 seconds, and 0.5 ms for each token."""

    def __init__(self):
        super().__init__()
        self._now, self.num_tokens = 0.0, 0
        select = self._selector.select

        def advance(timeout):
            self._now += timeout or 0.0
            return select(0)

        self._selector.select = advance

    def time(self):
        return self._now

    def run_in_executor(self, executor, function, batch):
        done, tokens = self.create_future(), sum(one.costs[index] for one, index in batch)
        self.num_tokens += tokens
        self.call_later(0.02 + 0.0005 * tokens, lambda: done.set_result(function(batch)))
        return done


def run_virtual(scenario, **settings):
    """The result of `scenario(batcher, loop)` by the clock of a virtual loop."""
    loop = VirtualLoop()

    async def run():
        batcher = Batcher("fr-en", ServerSettings(**settings), ServerMetrics(), loop.time)
        running = asyncio.create_task(batcher.run())
        try:
            return await scenario(batcher, loop)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            batcher.close()

    try:
        return loop.run_until_complete(run())
    finally:
        loop.close()


async def ask(batcher, loop, tokens, function=None):
    """What becomes of a request in lines of ten tokens, and the seconds until it is known."""
    began, timeout = loop.time(), batcher._settings.timeout
    try:
        pending = submit(
            batcher, function or Echo(), *range(tokens // 10), cost=10, deadline=began + timeout
        )
        async with asyncio.timeout_at(began + timeout):
            await pending
    except (RequestError, TimeoutError) as error:
        return getattr(error, "status_code", 504), loop.time() - began
    return 200, loop.time() - began


CAPACITY = 2048 / (0.02 + 0.0005 * 2048)  # tokens a second of the virtual loop, in full batches


@pytest.mark.parametrize(
    ("factor", "workers", "sizes"),
    [
        (1, 1, [200]),
        (2, 1, [20, 1000]),
        (5, 1, [200]),
        (10, 1, [20, 40, 200, 1000]),
        (10, 3, [200]),
    ],
)
def test_what_is_answered_does_not_fall_when_more_is_asked(factor, sizes, workers):
    chance, seconds, timeout = random.Random(1), 20, 4
    rate = factor * workers * CAPACITY / (sum(sizes) / len(sizes))

    async def scenario(batcher, loop):
        async def arrive(at):
            await asyncio.sleep(at)
            tokens = chance.choice(sizes)
            return tokens, await ask(batcher, loop, tokens)

        times = [chance.uniform(0, seconds) for _ in range(int(seconds * rate))]
        return await asyncio.gather(*map(arrive, times)), loop.num_tokens

    answers, translated = run_virtual(scenario, timeout=timeout, workers=workers)
    good = sum(tokens for tokens, (status, _) in answers if status == 200)
    assert good > 0.9 * seconds * workers * CAPACITY
    assert good > 0.97 * translated, "little is translated for nobody"
    refused = [took for _, (status, took) in answers if status == 503]
    assert sum(took > 0 for took in refused) < 0.05 * len(answers), "they are refused at once"


def warm_up(batcher, loop):
    """Let the batcher learn how long batches take."""
    return asyncio.gather(*(ask(batcher, loop, 200) for _ in range(30)))


def test_a_request_of_many_lines_does_not_delay_one_of_few():
    async def scenario(batcher, loop):
        await warm_up(batcher, loop)
        long = asyncio.create_task(ask(batcher, loop, 60_000))
        await asyncio.sleep(0.1)
        short = [(await ask(batcher, loop, 10))[1] for _ in range(20)]
        return max(short), await long

    slowest, (status, took) = run_virtual(scenario, timeout=60)
    assert slowest < 2.2, "not more than the batch that runs and its own, of a second each"
    assert status == 200
    assert took < 1.2 * 60_000 / CAPACITY


def test_requests_with_other_settings_do_not_wait_until_their_deadlines():
    async def scenario(batcher, loop):
        async def keep_busy():
            while True:
                await ask(batcher, loop, 10)

        await warm_up(batcher, loop)
        busy = [asyncio.create_task(keep_busy()) for _ in range(30)]
        await asyncio.sleep(1)
        found = await ask(batcher, loop, 200, Echo("other"))
        for one in busy:
            one.cancel()
        return found

    status, took = run_virtual(scenario, timeout=60)
    assert status == 200
    assert took < 3


def test_a_request_that_cannot_be_answered_in_time_is_refused_with_the_seconds_to_wait():
    async def scenario(batcher, loop):
        await warm_up(batcher, loop)
        first = asyncio.create_task(ask(batcher, loop, 10_000))
        await asyncio.sleep(0.1)
        with pytest.raises(RequestError, match="more is asked of the model") as refused:
            submit(batcher, Echo(), "x", cost=3000, deadline=loop.time() + 6)
        return refused.value, await first

    refused, first = run_virtual(scenario, timeout=20)
    assert refused.status_code == 503
    assert 1 < int(refused.headers["Retry-After"]) < 10
    assert first[0] == 200


def test_a_request_alone_is_admitted_however_long_it_seems():
    """Otherwise one wrong estimate could refuse all requests for ever."""

    async def scenario(batcher, loop):
        await warm_up(batcher, loop)
        alone = await ask(batcher, loop, 10_000)
        given_up = asyncio.create_task(ask(batcher, loop, 10_000))
        await asyncio.sleep(0.5)
        return [alone, await ask(batcher, loop, 200), await given_up]

    answers = run_virtual(scenario, timeout=4)
    assert [status for status, _ in answers] == [504, 200, 503]
    assert answers[2][1] < 3, "as soon as the next batch begins"


def test_of_requests_that_seem_too_long_one_is_tried_and_nothing_of_them_stays_counted():
    async def scenario(batcher, loop):
        await warm_up(batcher, loop)
        together = await asyncio.gather(*(ask(batcher, loop, 10_000) for _ in range(3)))
        await asyncio.sleep(4)  # a batch of the one that was tried may still be running
        return Counter(status for status, _ in together), batcher.backlog()

    assert run_virtual(scenario, timeout=4) == (Counter({503: 2, 504: 1}), 0.0)


def test_nobody_is_told_to_wait_longer_than_what_is_before_them_takes():
    async def scenario(batcher, loop):
        await warm_up(batcher, loop)
        first = asyncio.create_task(ask(batcher, loop, 2000))
        await asyncio.sleep(0)
        with pytest.raises(RequestError) as refused:
            submit(batcher, Echo(), "x", cost=10**6, deadline=loop.time() + 20)
        await first
        return int(refused.value.headers["Retry-After"])

    assert run_virtual(scenario, timeout=20) <= 2


def test_requests_that_turn_out_too_late_are_refused_before_they_are_translated():
    """Nothing is known at first, so all are admitted."""

    async def scenario(batcher, loop):
        answers = await asyncio.gather(*(ask(batcher, loop, 200) for _ in range(100)))
        return Counter(status for status, _ in answers), loop.num_tokens

    found, translated = run_virtual(scenario, timeout=4)
    assert found[504] == 0
    assert found[200] > 25
    assert translated <= 200 * (found[200] + 1)


def test_a_batch_of_a_slow_model_is_small_enough_to_end_in_time():
    async def scenario(batcher, loop):
        return Counter([(await ask(batcher, loop, 200))[0] for _ in range(3)]) + Counter(
            status
            for status, _ in await asyncio.gather(*(ask(batcher, loop, 20) for _ in range(300)))
        )

    assert run_virtual(scenario, timeout=0.4)[200] > 20
