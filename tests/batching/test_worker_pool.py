import operator
import os
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from regard.batching import worker_pool
from regard.batching.subprocess_rpc import WorkerDiedError
from regard.batching.worker_pool import PoolWorker, WorkerPool

TRIPLE = partial(partial, operator.mul, 3)  # to be called where the helper is: what it then does
BREAK = partial(partial, operator.truediv, 1)
END = partial(partial, os._exit)
UNREADY = partial(operator.truediv, 1, 0)


def slowly(job):
    time.sleep(0.02)
    return -job


@pytest.fixture
def at_once(monkeypatch):
    """Helpers are started after the first job."""
    monkeypatch.setattr(worker_pool, "MIN_SECONDS", -1.0)


def test_a_helper_answers_one_job_after_another():
    helper = PoolWorker(TRIPLE)
    assert [helper.request(job) for job in (2, [1], "ab")] == [6, [1] * 3, "ababab"]
    helper.close()
    helper.close()


def test_a_helpers_error_is_raised_here_and_it_goes_on():
    helper = PoolWorker(BREAK)
    with pytest.raises(ZeroDivisionError):
        helper.request(0)
    assert helper.request(4) == 0.25
    helper.close()


@pytest.mark.parametrize("make", [END, UNREADY])
def test_a_helper_that_is_gone_says_so(make, capfd):
    helper = PoolWorker(make)
    with pytest.raises(WorkerDiedError, match=r"ended with status [13]"):
        helper.request(3)
    helper.close()


def test_jobs_are_shared_and_their_results_in_order(at_once):
    both = WorkerPool(TRIPLE, 2)
    assert not both.started
    jobs = list(range(1, 200))
    found = both.map_jobs(jobs, slowly)
    assert both.started
    assert [abs(one) in (job, 3 * job) for one, job in zip(found, jobs, strict=True)] == [
        True
    ] * 199
    assert min(found) < 0 < max(found)  # some were done here, some by helpers
    again = both.map_jobs(jobs[:9], slowly)
    assert len(again) == 9
    both.close()
    assert not both.started
    assert both.map_jobs([], slowly) == []


def test_none_is_started_for_little_work():
    alone = WorkerPool(TRIPLE, 1)
    assert alone.map_jobs([1, 2, 3], slowly) == [-1, -2, -3]
    assert not alone.started


def test_many_short_calls_start_helpers_for_the_next(monkeypatch):
    now = 0.0

    def tick(job):
        nonlocal now
        now += 0.5
        return -job

    monkeypatch.setattr(worker_pool.time, "monotonic", lambda: now)
    often = WorkerPool(TRIPLE, 1)
    for _ in range(9):
        assert often.map_jobs([1], tick) == [-1]  # there was nothing to share
    assert often.map_jobs([1, 2, 3], tick) == [-1, -2, -3]
    assert not often.started
    assert often.map_jobs([1, 2, 3, 4], tick) == [-1, -2, -3, -4]  # 3.5 seconds in all
    assert often.started
    found = often.map_jobs(list(range(1, 200)), slowly)
    assert min(found) < 0 < max(found)
    often.close()


@pytest.mark.parametrize("make", [END, UNREADY])
def test_what_a_lost_helper_leaves_is_done_here(make, at_once, capfd):
    shrinking = WorkerPool(make, 2)
    jobs = list(range(1, 100))
    assert shrinking.map_jobs(jobs, slowly) == [-job for job in jobs]
    assert not shrinking.started


def test_an_error_ends_it_all(at_once):
    breaking = WorkerPool(BREAK, 1)
    with pytest.raises(ZeroDivisionError):
        breaking.map_jobs([1] * 20 + [0] * 400, slowly)
    assert not breaking.started

    def fail(job):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaking.map_jobs([1, 2], fail)


def test_two_threads_do_not_ask_the_same_helpers(at_once):
    one = WorkerPool(TRIPLE, 1)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(one.map_jobs(list(range(1, 30)), slowly)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one.close()
    assert len(found) == 2
    for answers in found:
        assert [abs(one) // job in (1, 3) for job, one in enumerate(answers, 1)] == [True] * 29


def test_a_helper_ends_with_who_started_it():
    script = (
        "import operator, os\n"
        "from functools import partial\n"
        "from regard.batching.worker_pool import PoolWorker\n"
        "helper = PoolWorker(partial(partial, operator.mul, 3))\n"
        "assert helper.request(2) == 6\n"
        "print(helper._process.pid, flush=True)\n"
        "os._exit(1)\n"  # as if it was killed: nothing is put in order
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    number = int(said.stdout)
    for _ in range(100):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail(f"the helper {number} goes on by itself")
