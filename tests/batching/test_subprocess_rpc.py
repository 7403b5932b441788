import operator
import os
from functools import partial

import pytest

from regard.batching.subprocess_rpc import WorkerDiedError, WorkerProcess

CREW = "regard.batching.worker_pool"


def test_what_it_is_told_it_answers_in_turn():
    process = WorkerProcess(CREW)
    process.send(partial(partial, operator.mul, 3))
    process.send(2)
    process.send("ab")
    assert [process.receive(), process.receive()] == [6, "ababab"]
    process.close()
    process.close()


def test_its_surroundings_differ_where_they_are_to():
    process = WorkerProcess(CREW, {"REGARD_TEST": "there"})
    process.send(partial(partial, os.getenv))
    for name, value in {"REGARD_TEST": "there", "PATH": os.environ["PATH"]}.items():
        process.send(name)
        assert process.receive() == value
    process.close()


def test_that_it_is_gone_is_found_when_it_is_heard():
    process = WorkerProcess(CREW)
    process.send(partial(partial, os._exit))
    process.send(7)
    for _ in range(2):
        with pytest.raises(WorkerDiedError, match=r"ended with status 7") as found:
            process.receive()
        assert found.value.status == 7
        process.send("nobody hears it")
    process.close()
