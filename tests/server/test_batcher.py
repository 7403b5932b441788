import asyncio
import threading
import time
from dataclasses import dataclass, field

import pytest

from regard.errors import SearchError
from regard.server.batcher import Batcher
from regard.server.errors import RequestError
from regard.server.metrics import ServerMetrics
from regard.server.settings import ServerSettings


class Nobody:
    """Stands for a translator: these tasks need none."""

    folders = ()


@dataclass(frozen=True)
class Shout:
    """Repeats items in capitals, and remembers which it was given together."""

    name: str = ""
    batches: list = field(default_factory=list, compare=False)
    hold: threading.Event = field(default_factory=threading.Event, compare=False)

    def __call__(self, translator, items, waiters):
        assert self.hold.wait(10)
        self.batches.append(list(items))
        if "bad" in items:
            raise SearchError("runs/secret: bad is bad")
        if "worse" in items:
            raise ZeroDivisionError("worse")
        for number, item in enumerate(items):
            waiters.send_partial(number, item[:1])
        return [item.upper() for item in items]


def gather(scenario, clock=time.monotonic, **settings):
    """Run `scenario(gatherer)` beside a gatherer."""

    async def run():
        wanted = ServerSettings(**{"window": 0.01, **settings})
        batcher = Batcher("fr-en", Nobody(), wanted, ServerMetrics(), clock)
        running = asyncio.create_task(batcher.run())
        try:
            return await asyncio.wait_for(scenario(batcher), 20)
        finally:
            running.cancel()
            batcher.close()

    return asyncio.run(run())


def submit(batcher, function, *items, cost=1, on_partial=None):
    return batcher.submit(function, items, [cost] * len(items), on_partial).done


def opened(*names):
    tasks = [Shout(name) for name in names]
    for function in tasks:
        function.hold.set()
    return tasks if len(tasks) > 1 else tasks[0]


def test_requests_that_come_together_are_answered_together():
    function = opened("")

    async def scenario(batcher):
        return await asyncio.gather(*(submit(batcher, function, f"a{n}", "b") for n in range(5)))

    assert gather(scenario) == [[f"A{n}", "B"] for n in range(5)]
    assert len(function.batches) == 1


def test_those_who_come_while_a_batch_is_made_are_the_next():
    function = Shout()

    async def scenario(batcher):
        first = submit(batcher, function, "first")
        while len(batcher):
            await asyncio.sleep(0.001)
        others = [submit(batcher, function, f"x{n}") for n in range(4)]
        function.hold.set()
        return await asyncio.gather(first, *others)

    gather(scenario, window=0)
    assert function.batches == [["first"], ["x0", "x1", "x2", "x3"]]


def test_those_who_came_together_are_waited_for():
    function, now = opened(""), [0.0]
    window = 600.0  # longer than the test may take: only the clock here ends one

    async def scenario(batcher):
        await asyncio.gather(*(submit(batcher, function, f"a{n}") for n in range(3)))
        again = [submit(batcher, function, "b0")]
        for number in (1, 2):
            now[0] += 1.2 * window  # longer than a window, not than three
            await asyncio.sleep(0)
            again.append(submit(batcher, function, f"b{number}"))
        await asyncio.gather(*again)

    gather(scenario, lambda: now[0], window=window, batch_tokens=3)
    assert [len(batch) for batch in function.batches] == [3, 3]


def test_unlike_tasks_are_not_mixed():
    one, other = opened("one", "other")

    async def scenario(batcher):
        return await asyncio.gather(
            *(
                submit(batcher, function, f"{function.name} {n}")
                for n in range(3)
                for function in (one, other)
            )
        )

    gather(scenario)
    assert one.batches == [["one 0", "one 1", "one 2"]]
    assert other.batches == [["other 0", "other 1", "other 2"]]


def test_a_batch_is_within_its_budget_but_never_empty():
    function = opened("")

    async def scenario(batcher):
        await asyncio.gather(
            submit(batcher, function, *"abcdef", cost=2), submit(batcher, function, "X")
        )
        return await submit(batcher, function, "huge", cost=1000)

    assert gather(scenario, batch_tokens=4) == ["HUGE"]
    assert all(
        sum(2 if item.islower() else 1 for item in one) <= 5 for one in function.batches[:-1]
    )


def test_one_of_many_lines_does_not_hold_up_one_of_few():
    function = opened("")

    async def scenario(batcher):
        await asyncio.gather(
            submit(batcher, function, *[f"long {n}" for n in range(10)]),
            submit(batcher, function, "short 0", "short 1"),
        )

    gather(scenario, batch_tokens=4)
    assert function.batches[0] == ["long 0", "short 0", "long 1", "short 1"]


def test_a_full_queue_says_when_to_come_again():
    function = Shout()

    async def scenario(batcher):
        requests = [submit(batcher, function, "x") for _ in range(3)]
        with pytest.raises(RequestError, match="3 requests wait already") as refused:
            submit(batcher, function, "y")
        function.hold.set()
        await asyncio.gather(*requests)
        return refused.value

    refused = gather(scenario, queue=3)
    assert refused.status == 503
    assert int(refused.headers["Retry-After"]) >= 1


def test_who_leaves_is_not_translated():
    function = Shout()

    async def scenario(batcher):
        requests = [submit(batcher, function, f"x{n}") for n in range(3)]
        requests[1].cancel()
        await asyncio.sleep(0)
        assert len(batcher) == 2
        function.hold.set()
        return await asyncio.gather(*requests, return_exceptions=True)

    first, remaining, last = gather(scenario)
    assert (first, last) == (["X0"], ["X2"])
    assert isinstance(remaining, asyncio.CancelledError)
    assert function.batches == [["x0", "x2"]]


def test_a_batch_hears_that_someone_left_while_it_is_made():
    heard, begun, remaining = [], threading.Event(), threading.Event()

    @dataclass(frozen=True)
    class Asking:
        def __call__(self, translator, items, waiters):
            begun.set()
            assert remaining.wait(10)
            heard.extend(waiters.is_waiting(number) for number in range(len(items)))
            return list(items)

    async def scenario(batcher):
        stays, leaves = submit(batcher, Asking(), "a"), submit(batcher, Asking(), "b")
        await asyncio.to_thread(begun.wait, 10)
        leaves.cancel()
        remaining.set()
        return await stays

    assert gather(scenario) == ["a"]
    assert heard == [True, False]


def test_one_that_fails_fails_alone():
    function = opened("")

    async def scenario(batcher):
        return await asyncio.gather(
            *(submit(batcher, function, item) for item in ("good", "bad", "fine", "worse")),
            return_exceptions=True,
        )

    good, bad, fine, worse = gather(scenario)
    assert (good, fine) == (["GOOD"], ["FINE"])
    assert (bad.status, bad.message) == (400, "runs/secret: bad is bad")
    assert (worse.status, worse.message) == (500, "the server made a mistake; its log says where")


def test_a_task_that_miscounts_is_our_mistake():
    @dataclass(frozen=True)
    class Short:
        def __call__(self, translator, items, waiters):
            return list(items)[1:]

    async def scenario(batcher):
        with pytest.raises(RequestError, match="the server made a mistake") as refused:
            await submit(batcher, Short(), "a", "b")
        return [refused.value.status, await submit(batcher, opened(""), "c")]

    assert gather(scenario) == [500, ["C"]]


def test_an_error_does_not_tell_where_the_model_lies(translator):
    async def run():
        batcher = Batcher("fr-en", translator, ServerSettings(), ServerMetrics())
        error = batcher._client_error(
            SearchError(f"{translator.runs[0].folder.path}: has no layer 9")
        )
        batcher.close()
        return error.message

    assert asyncio.run(run()) == "fr-en: has no layer 9"


def test_progress_goes_to_whom_it_is_about():
    function, heard = opened(""), []

    async def scenario(batcher):
        await asyncio.gather(
            submit(batcher, function, "apple"),
            submit(batcher, function, "pear", "fig", on_partial=lambda *news: heard.append(news)),
        )

    gather(scenario)
    assert sorted(heard) == [(0, "p"), (1, "f")]


def test_a_request_without_lines_is_answered_at_once():
    async def scenario(batcher):
        return await submit(batcher, Shout())

    assert gather(scenario) == []


def test_a_new_model_takes_over_between_batches():
    seen = []

    @dataclass(frozen=True)
    class Seeing:
        def __call__(self, translator, items, waiters):
            seen.append(translator)
            return list(items)

    async def scenario(batcher):
        before = batcher.translator
        await submit(batcher, Seeing(), "a")
        batcher.translator = after = Nobody()
        await submit(batcher, Seeing(), "b")
        return [before, after]

    assert gather(scenario) == seen
