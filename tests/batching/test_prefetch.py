import itertools
import os
import subprocess
import threading
import time
from contextlib import closing
from functools import partial
from itertools import count

import pytest

from regard.batching.prefetch import prefetch, start_then_hand_over
from regard.errors import RunError


def test_ahead_gives_the_same_in_order():
    assert list(prefetch(iter(range(100)), 3)) == list(range(100))


def test_ahead_prepares_no_more_than_asked():
    made = []

    def items():
        for n in count():
            made.append(n)
            yield n

    stream = prefetch(items(), 4)
    assert next(stream) == 0
    deadline = time.monotonic() + 5
    while len(made) < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    assert 5 <= len(made) <= 6
    stream.close()


def test_ahead_hands_on_errors():
    def items():
        yield 1
        raise OSError("the disk is gone")

    stream = prefetch(items(), 2)
    assert next(stream) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(stream)


def test_ahead_leaves_no_thread_behind():
    before = threading.active_count()
    stream = prefetch(count(), 2)
    next(stream)
    stream.close()
    assert threading.active_count() == before


PIDS = "(__import__('os').getpid() for _ in range(1000))"
HERE = object()


def gone(status):
    return RunError(f"it ended with {status}")


def wait_here(_):
    """Items of this process until the workers are ready."""
    while True:
        time.sleep(0.01)
        yield HERE


def in_workers(*expressions):
    """The items of the expressions, each of which a worker evaluates."""
    makers = [partial(eval, expression) for expression in expressions]
    items = start_then_hand_over(wait_here, makers, {}, lambda _: {}, gone)
    with closing(items):
        yield from (item for item in items if item is not HERE)


def test_workers_take_turns_until_one_has_no_more():
    assert list(in_workers("iter([1, 3, 5])", "iter([2, 4])")) == [1, 2, 3, 4, 5]
    assert list(in_workers("iter([2, 4])", "iter([1, 3, 5])")) == [2, 1, 4, 3]


def test_workers_end_with_their_stream():
    items = in_workers(PIDS, PIDS, PIDS)
    workers = [next(items) for _ in range(6)]
    assert workers[:3] == workers[3:]
    assert len({*workers, os.getpid()}) == 4
    items.close()
    for worker in set(workers):
        with pytest.raises(ProcessLookupError):
            os.kill(worker, 0)


def test_an_error_of_a_worker_is_raised():
    items = in_workers("map(int, ['7', 'x'])")
    assert next(items) == 7
    with pytest.raises(ValueError, match="'x'"):
        next(items)


def test_a_killed_worker_is_reported():
    items = in_workers(
        "(x and __import__('os').kill(__import__('os').getpid(), 9) for x in (0, 1))"
    )
    assert next(items) == 0
    with pytest.raises(RunError, match="it ended with -9"):
        next(items)


def slowly(first):
    """Numbers from `first` on, as floats, to tell which process made them."""
    for number in itertools.count(first):
        time.sleep(0.01)
        yield float(number)


class Deadly:
    """Ends the process that unpickles it."""

    def __reduce__(self):
        return os._exit, (3,)


class Patient:
    """Unpickled as `itertools.count`, as soon as a file exists, or after 30 s."""

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
    before = threading.active_count()
    started, real = [], subprocess.Popen
    noted = lambda *args, **kwargs: started.append(real(*args, **kwargs)) or started[-1]  # noqa: E731
    monkeypatch.setattr(subprocess, "Popen", noted)
    with relief(itertools.count) as items:
        assert next(items) == 5.0
    [worker] = started
    assert worker.returncode is not None
    assert threading.active_count() == before
