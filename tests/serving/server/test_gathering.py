import asyncio
import threading
import time
from dataclasses import dataclass, field

import pytest

from regard.errors import SearchError
from regard.serving.server.gathering import Gatherer
from regard.serving.server.metrics import Metrics
from regard.serving.server.refusals import RequestError
from regard.serving.server.settings import ServerSettings


class Nobody:
    """Stands for a translator: these tasks need none."""

    folders = ()


@dataclass(frozen=True)
class Shout:
    """Repeats items in capitals, and remembers which it was given together."""

    name: str = ""
    batches: list = field(default_factory=list, compare=False)
    hold: threading.Event = field(default_factory=threading.Event, compare=False)

    def __call__(self, translator, items, crowd):
        assert self.hold.wait(10)
        self.batches.append(list(items))
        if "bad" in items:
            raise SearchError("runs/secret: bad is bad")
        if "worse" in items:
            raise ZeroDivisionError("worse")
        for number, item in enumerate(items):
            crowd.tell(number, item[:1])
        return [item.upper() for item in items]


def gather(scenario, clock=time.monotonic, **settings):
    """Run `scenario(gatherer)` beside a gatherer."""

    async def run():
        wanted = ServerSettings(**{"window": 0.01, **settings})
        gatherer = Gatherer("fr-en", Nobody(), wanted, Metrics(), clock)
        running = asyncio.create_task(gatherer.run())
        try:
            return await asyncio.wait_for(scenario(gatherer), 20)
        finally:
            running.cancel()
            gatherer.close()

    return asyncio.run(run())


def submit(gatherer, task, *items, cost=1, progress=None):
    return gatherer.submit(task, items, [cost] * len(items), progress).done


def opened(*names):
    tasks = [Shout(name) for name in names]
    for task in tasks:
        task.hold.set()
    return tasks if len(tasks) > 1 else tasks[0]


def test_requests_that_come_together_are_answered_together():
    task = opened("")

    async def scenario(gatherer):
        return await asyncio.gather(*(submit(gatherer, task, f"a{n}", "b") for n in range(5)))

    assert gather(scenario) == [[f"A{n}", "B"] for n in range(5)]
    assert len(task.batches) == 1


def test_those_who_come_while_a_batch_is_made_are_the_next():
    task = Shout()

    async def scenario(gatherer):
        first = submit(gatherer, task, "first")
        while len(gatherer):
            await asyncio.sleep(0.001)
        others = [submit(gatherer, task, f"x{n}") for n in range(4)]
        task.hold.set()
        return await asyncio.gather(first, *others)

    gather(scenario, window=0)
    assert task.batches == [["first"], ["x0", "x1", "x2", "x3"]]


def test_those_who_came_together_are_waited_for():
    task, now = opened(""), [0.0]
    window = 600.0  # longer than the test may take: only the clock here ends one

    async def scenario(gatherer):
        await asyncio.gather(*(submit(gatherer, task, f"a{n}") for n in range(3)))
        again = [submit(gatherer, task, "b0")]
        for number in (1, 2):
            now[0] += 1.2 * window  # longer than a window, not than three
            await asyncio.sleep(0)
            again.append(submit(gatherer, task, f"b{number}"))
        await asyncio.gather(*again)

    gather(scenario, lambda: now[0], window=window, batch_tokens=3)
    assert [len(batch) for batch in task.batches] == [3, 3]


def test_unlike_tasks_are_not_mixed():
    one, other = opened("one", "other")

    async def scenario(gatherer):
        return await asyncio.gather(
            *(submit(gatherer, task, f"{task.name} {n}") for n in range(3) for task in (one, other))
        )

    gather(scenario)
    assert one.batches == [["one 0", "one 1", "one 2"]]
    assert other.batches == [["other 0", "other 1", "other 2"]]


def test_a_batch_is_within_its_budget_but_never_empty():
    task = opened("")

    async def scenario(gatherer):
        await asyncio.gather(submit(gatherer, task, *"abcdef", cost=2), submit(gatherer, task, "X"))
        return await submit(gatherer, task, "huge", cost=1000)

    assert gather(scenario, batch_tokens=4) == ["HUGE"]
    assert all(sum(2 if item.islower() else 1 for item in one) <= 5 for one in task.batches[:-1])


def test_one_of_many_lines_does_not_hold_up_one_of_few():
    task = opened("")

    async def scenario(gatherer):
        await asyncio.gather(
            submit(gatherer, task, *[f"long {n}" for n in range(10)]),
            submit(gatherer, task, "short 0", "short 1"),
        )

    gather(scenario, batch_tokens=4)
    assert task.batches[0] == ["long 0", "short 0", "long 1", "short 1"]


def test_a_full_queue_says_when_to_come_again():
    task = Shout()

    async def scenario(gatherer):
        jobs = [submit(gatherer, task, "x") for _ in range(3)]
        with pytest.raises(RequestError, match="3 requests wait already") as refused:
            submit(gatherer, task, "y")
        task.hold.set()
        await asyncio.gather(*jobs)
        return refused.value

    refused = gather(scenario, queue=3)
    assert refused.status == 503
    assert int(refused.headers["Retry-After"]) >= 1


def test_who_leaves_is_not_translated():
    task = Shout()

    async def scenario(gatherer):
        jobs = [submit(gatherer, task, f"x{n}") for n in range(3)]
        jobs[1].cancel()
        await asyncio.sleep(0)
        assert len(gatherer) == 2
        task.hold.set()
        return await asyncio.gather(*jobs, return_exceptions=True)

    first, left, last = gather(scenario)
    assert (first, last) == (["X0"], ["X2"])
    assert isinstance(left, asyncio.CancelledError)
    assert task.batches == [["x0", "x2"]]


def test_a_batch_hears_that_someone_left_while_it_is_made():
    heard, begun, left = [], threading.Event(), threading.Event()

    @dataclass(frozen=True)
    class Asking:
        def __call__(self, translator, items, crowd):
            begun.set()
            assert left.wait(10)
            heard.extend(crowd.waits(number) for number in range(len(items)))
            return list(items)

    async def scenario(gatherer):
        stays, leaves = submit(gatherer, Asking(), "a"), submit(gatherer, Asking(), "b")
        await asyncio.to_thread(begun.wait, 10)
        leaves.cancel()
        left.set()
        return await stays

    assert gather(scenario) == ["a"]
    assert heard == [True, False]


def test_one_that_fails_fails_alone():
    task = opened("")

    async def scenario(gatherer):
        return await asyncio.gather(
            *(submit(gatherer, task, item) for item in ("good", "bad", "fine", "worse")),
            return_exceptions=True,
        )

    good, bad, fine, worse = gather(scenario)
    assert (good, fine) == (["GOOD"], ["FINE"])
    assert (bad.status, bad.message) == (400, "runs/secret: bad is bad")
    assert (worse.status, worse.message) == (500, "the server made a mistake; its log says where")


def test_a_task_that_miscounts_is_our_mistake():
    @dataclass(frozen=True)
    class Short:
        def __call__(self, translator, items, crowd):
            return list(items)[1:]

    async def scenario(gatherer):
        with pytest.raises(RequestError, match="the server made a mistake") as refused:
            await submit(gatherer, Short(), "a", "b")
        return [refused.value.status, await submit(gatherer, opened(""), "c")]

    assert gather(scenario) == [500, ["C"]]


def test_an_error_does_not_tell_where_the_model_lies(translator):
    async def run():
        gatherer = Gatherer("fr-en", translator, ServerSettings(), Metrics())
        error = gatherer._blame(SearchError(f"{translator.runs[0].folder.path}: has no layer 9"))
        gatherer.close()
        return error.message

    assert asyncio.run(run()) == "fr-en: has no layer 9"


def test_progress_goes_to_whom_it_is_about():
    task, heard = opened(""), []

    async def scenario(gatherer):
        await asyncio.gather(
            submit(gatherer, task, "apple"),
            submit(gatherer, task, "pear", "fig", progress=lambda *news: heard.append(news)),
        )

    gather(scenario)
    assert sorted(heard) == [(0, "p"), (1, "f")]


def test_a_request_without_lines_is_answered_at_once():
    async def scenario(gatherer):
        return await submit(gatherer, Shout())

    assert gather(scenario) == []


def test_a_new_model_takes_over_between_batches():
    seen = []

    @dataclass(frozen=True)
    class Seeing:
        def __call__(self, translator, items, crowd):
            seen.append(translator)
            return list(items)

    async def scenario(gatherer):
        before = gatherer.translator
        await submit(gatherer, Seeing(), "a")
        gatherer.translator = after = Nobody()
        await submit(gatherer, Seeing(), "b")
        return [before, after]

    assert gather(scenario) == seen
