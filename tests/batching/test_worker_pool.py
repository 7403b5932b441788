import operator
import os
import subprocess
import sys
import threading
import time
from functools import partial

import pytest

from regard.batching import worker_pool
from regard.batching.worker_pool import Worker, WorkerDiedError, WorkerPool, run_in_worker

TRIPLE = partial(partial, operator.mul, 3)  # called in the worker: the function that does jobs
BREAK = partial(partial, operator.truediv, 1)
END = partial(partial, os._exit)
UNREADY = partial(operator.truediv, 1, 0)


def slowly(job):
    time.sleep(0.02)
    return -job


@pytest.fixture
def at_once(monkeypatch):
    """Workers are started after the first job."""
    monkeypatch.setattr(worker_pool, "MIN_SECONDS", -1.0)


def test_jobs_are_shared_and_their_results_in_order(at_once):
    both = WorkerPool(TRIPLE, 2)
    assert not both.started
    jobs = list(range(1, 200))
    found = both.map_jobs(jobs, slowly)
    assert both.started
    assert [abs(one) in (job, 3 * job) for one, job in zip(found, jobs, strict=True)] == [
        True
    ] * 199
    assert min(found) < 0 < max(found)  # some were done here, some by workers
    again = both.map_jobs(jobs[:9], slowly)
    assert len(again) == 9
    both.close()
    assert not both.started
    assert both.map_jobs([], slowly) == []


def test_little_work_starts_no_worker():
    alone = WorkerPool(TRIPLE, 1)
    assert alone.map_jobs([1, 2, 3], slowly) == [-1, -2, -3]
    assert not alone.started


def test_many_short_calls_start_workers_for_the_next(monkeypatch):
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
def test_the_jobs_of_a_dead_worker_are_done_here(make, at_once, capfd):
    shrinking = WorkerPool(make, 2)
    jobs = list(range(1, 100))
    assert shrinking.map_jobs(jobs, slowly) == [-job for job in jobs]
    assert not shrinking.started


def test_an_error_ends_the_call_and_the_workers(at_once):
    breaking = WorkerPool(BREAK, 1)
    with pytest.raises(ZeroDivisionError):
        breaking.map_jobs([1] * 20 + [0] * 400, slowly)
    assert not breaking.started

    def fail(job):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        breaking.map_jobs([1, 2], fail)


def test_two_threads_do_not_share_workers(at_once):
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


def test_a_worker_does_one_job_after_another():
    worker = Worker(TRIPLE)
    assert [worker.request(job) for job in (2, [1], "ab")] == [6, [1] * 3, "ababab"]
    worker.close()
    worker.close()


def test_an_error_of_a_job_is_raised_and_the_worker_continues():
    worker = Worker(BREAK)
    with pytest.raises(ZeroDivisionError):
        worker.request(0)
    assert worker.request(4) == 0.25
    worker.close()


@pytest.mark.parametrize(("factory", "status"), [(END, 3), (UNREADY, 1)])
def test_a_dead_worker_is_reported_with_its_status(factory, status, capfd):
    worker = Worker(factory)
    for _ in range(2):
        with pytest.raises(WorkerDiedError, match=f"ended with status {status}") as caught:
            worker.request(3)
        assert caught.value.status == status
    worker.close()


def test_the_environment_can_be_extended():
    worker = Worker(partial(partial, os.getenv), {"REGARD_TEST": "set"})
    for name, value in {"REGARD_TEST": "set", "PATH": os.environ["PATH"]}.items():
        assert worker.request(name) == value
    worker.close()


def test_a_worker_ends_with_its_parent():
    script = (
        "import os\n"
        "from functools import partial\n"
        "from regard.batching.worker_pool import Worker\n"
        "worker = Worker(partial(partial, eval))\n"
        "print(worker.request('__import__(\"os\").getpid()'), flush=True)\n"
        "os._exit(1)\n"  # as if it was killed: nothing is cleaned up
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    pid = int(done.stdout)
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.05)
    else:
        pytest.fail(f"the worker {pid} goes on")


def test_a_function_runs_in_a_process_of_its_own(capfd):
    assert run_in_worker(os.getpid) != os.getpid()
    assert run_in_worker(partial(print, "noise")) is None  # a print is no result
    with pytest.raises(ValueError, match="'x'"):
        run_in_worker(partial(int, "x"))
    with pytest.raises(WorkerDiedError, match="ended with status 9"):
        run_in_worker(partial(sys.exit, 9))
