import operator
import os
import subprocess
import sys
import time
from functools import partial

import pytest

from regard.batching.worker_process import Worker, WorkerDiedError

TRIPLE = partial(partial, operator.mul, 3)  # called in the worker: the function that does jobs
DIVIDE = partial(partial, operator.truediv, 1)
EXIT = partial(partial, os._exit)
FAIL = partial(operator.truediv, 1, 0)


def test_a_worker_does_one_job_after_another():
    worker = Worker(TRIPLE)
    assert [worker.request(job) for job in (2, [1], "ab")] == [6, [1] * 3, "ababab"]
    worker.close()
    worker.close()


def test_an_error_of_a_job_is_raised_and_the_worker_continues():
    worker = Worker(DIVIDE)
    with pytest.raises(ZeroDivisionError):
        worker.request(0)
    assert worker.request(4) == 0.25
    worker.close()


@pytest.mark.parametrize(("factory", "status"), [(EXIT, 3), (FAIL, 1)])
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
        "from regard.batching.worker_process import Worker\n"
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
