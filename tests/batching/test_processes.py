import operator
import os
from functools import partial

import pytest

from regard.batching.processes import GoneError, Process

CREW = "regard.batching.crew"


def test_what_it_is_told_it_answers_in_turn():
    process = Process(CREW)
    process.tell(partial(partial, operator.mul, 3))
    process.tell(2)
    process.tell("ab")
    assert [process.hear(), process.hear()] == [6, "ababab"]
    process.close()
    process.close()


def test_its_surroundings_differ_where_they_are_to():
    process = Process(CREW, {"REGARD_TEST": "there"})
    process.tell(partial(partial, os.getenv))
    for name, value in {"REGARD_TEST": "there", "PATH": os.environ["PATH"]}.items():
        process.tell(name)
        assert process.hear() == value
    process.close()


def test_that_it_is_gone_is_found_when_it_is_heard():
    process = Process(CREW)
    process.tell(partial(partial, os._exit))
    process.tell(7)
    for _ in range(2):
        with pytest.raises(GoneError, match=r"ended with status 7") as found:
            process.hear()
        assert found.value.status == 7
        process.tell("nobody hears it")
    process.close()
