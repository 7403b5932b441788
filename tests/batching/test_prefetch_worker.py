import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from regard.batching.prefetch_worker import iterate_in_workers, start_then_hand_over
from regard.errors import RunError

MANY_PIDS = ["__import__('os').getpid()"] * 1000
"""More than is ever asked for; a list, as iterators of itertools are not pickled for ever."""


def gone(status):
    return RunError(f"it ended with {status}")


def test_items_come_from_another_process():
    assert list(iterate_in_workers([partial(iter, ["a", (1, 2)])], gone)) == ["a", (1, 2)]
    first = next(iterate_in_workers([partial(map, eval, ["__import__('os').getpid()"])], gone))
    assert first != os.getpid()


def test_workers_take_turns_until_one_has_no_more():
    odd, even = partial(iter, [1, 3, 5]), partial(iter, [2, 4])
    assert list(iterate_in_workers([odd, even], gone)) == [1, 2, 3, 4, 5]
    assert list(iterate_in_workers([even, odd], gone)) == [2, 1, 4, 3]


def test_all_are_started_at_once_and_ended_together():
    pids = partial(map, eval, MANY_PIDS)
    items = iterate_in_workers([pids, pids, pids], gone)
    workers = [next(items) for _ in range(6)]
    assert workers[:3] == workers[3:]
    assert len(set(workers)) == 3
    items.close()
    for worker in set(workers):
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_prints_of_a_worker_are_no_items():
    assert list(iterate_in_workers([partial(map, print, ["noise"])], gone)) == [None]


def test_an_error_of_a_worker_is_raised():
    items = iterate_in_workers([partial(map, int, ["7", "x"])], gone)
    assert next(items) == 7
    with pytest.raises(ValueError, match="'x'"):
        next(items)


def test_a_killed_worker_is_reported():
    killed = partial(map, eval, ["1", "__import__('os').kill(__import__('os').getpid(), 9)"])
    items = iterate_in_workers([killed], gone)
    assert next(items) == 1
    with pytest.raises(RunError, match="it ended with -9"):
        next(items)


def test_a_closed_stream_leaves_no_process():
    items = iterate_in_workers([partial(map, eval, MANY_PIDS)], gone)
    worker = next(items)
    items.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def slowly(first):
    """Numbers from `first` on, as floats, so that it can be seen who made them."""
    for number in itertools.count(first):
        time.sleep(0.01)
        yield float(number)


class Deadly:
    """Whoever unpickles it ends."""

    def __reduce__(self):
        return os._exit, (3,)


class Patient:
    """Whoever unpickles it waits until a file is there, though not for ever, and can count."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        there = f"__import__('os').path.exists({str(self.file)!r})"
        looks = f"(__import__('time').sleep(0.01) or {there} for _ in range(3000))"
        return eval, (f"(any({looks}), __import__('itertools').count)[1]",)


def relief(other):
    return closing(start_then_hand_over(slowly, [other], 5, lambda number: int(number) + 1, gone))


def test_a_worker_takes_over_when_it_is_ready(tmp_path):
    with relief(Patient(tmp_path / "now")) as items:
        found = list(itertools.islice(items, 9))
        assert all(isinstance(n, float) for n in found), "the other is not ready yet"
        (tmp_path / "now").touch()
        found += itertools.takewhile(lambda n: isinstance(n, float), items)
        assert len(found) < 1000  # it takes a while to take over, but no 10 s
        assert found == list(range(5, 5 + len(found)))
        assert next(items) == 5 + len(found) + 1, "what ended the first stretch was one on"


def test_a_worker_that_fails_to_start_is_reported():
    with relief(partial(map, int)) as items, pytest.raises(TypeError, match="not iterable"):
        list(itertools.islice(items, 1000))
    with relief(Deadly()) as items, pytest.raises(RunError, match="it ended with 3"):
        list(itertools.islice(items, 1000))


def test_a_stream_closed_before_the_hand_over_leaves_no_process(monkeypatch):
    started, real = [], subprocess.Popen
    noted = lambda *args, **kwargs: started.append(real(*args, **kwargs)) or started[-1]  # noqa: E731
    monkeypatch.setattr(subprocess, "Popen", noted)
    with relief(itertools.count) as items:
        assert next(items) == 5.0
    [worker] = started
    assert worker.returncode is not None
    assert threading.active_count() == 1


def test_a_killed_caller_leaves_no_process():
    script = """
        import functools
        from regard.batching.prefetch_worker import iterate_in_workers
        pids = map, eval, ["__import__('os').getpid()"] * 1000
        items = iterate_in_workers([functools.partial(*pids)], OSError)
        print(next(items), flush=True)
        input()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with parent:
        worker = Path("/proc") / parent.stdout.readline().strip()
        assert worker.exists()
        parent.send_signal(signal.SIGKILL)
    for _ in range(100):
        if not worker.exists():
            return
        time.sleep(0.1)
    pytest.fail("the process goes on")
