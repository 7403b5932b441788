"""What the launcher of several processes says, when, and what it starts again."""

import logging
import socket

import pytest
import torch.distributed.elastic.agent.server.api as agent
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

from regard.errors import CorpusError, LostRankError, RegardError, TrainingError
from regard.training.distributed import processes
from regard.training.distributed.launch import (
    ERROR_FILE_VARIABLE,
    OWN_RESTARTS_VARIABLE,
    RESTARTS_VARIABLE,
    Launch,
)
from regard.training.distributed.process_group import AGENT_STORE_VARIABLE, check_launcher

OF_DEVICES = Launch(2, 0, by_devices=True)


@pytest.fixture
def start(monkeypatch):
    """Start processes that end as they are told to, launch by launch: what is returned and said."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv(OWN_RESTARTS_VARIABLE, "0")
    level, notes = agent.logger.level, []

    def start(max_restarts, *endings):
        rest = iter(endings)

        def launched(*arguments):
            if (error := next(rest)) is not None:
                raise error

        monkeypatch.setattr(processes, "elastic_launch", lambda config, program: launched)
        status = processes.start_processes(2, "cpu", max_restarts, notes.append)
        assert not list(rest)
        return status, notes

    yield start
    agent.logger.setLevel(level)


@pytest.fixture
def left(tmp_path):
    """A function that gives the failure of a process that has raised an error."""

    def left(rank, error, launch=OF_DEVICES):
        file = tmp_path / f"{rank}.json"
        with (
            pytest.raises(SystemExit if launch.by_devices else type(error)),
            launch.errors_to_launcher({ERROR_FILE_VARIABLE: str(file)}),
        ):
            raise error
        return ProcessFailure(rank, 9, 1, str(file))

    return left


def failed(**failures):
    return ChildFailedError("regard", {int(rank[1:]): one for rank, one in failures.items()})


def ended(rank, status):
    return ProcessFailure(rank, 9, status, "no file")


def test_a_signal_to_the_launcher_ends_it_without_a_line_of_torch(start):
    assert start(2, SignalException("stopped", 15)) == (143, [])
    assert not agent.logger.isEnabledFor(logging.ERROR)


def test_an_error_of_a_person_ends_the_launch_at_once_with_its_message_alone(start, left):
    lost, bad = left(0, LostRankError("another process")), left(1, CorpusError("a bad folder"))
    with pytest.raises(RegardError, match=r"\Aa bad folder\Z"):
        start(3, failed(r0=lost, r1=bad))


def test_what_is_killed_or_crashes_is_started_again_and_then_named(start, left):
    lost = left(0, LostRankError("another process"))
    killed, crashed = failed(r0=lost, r1=ended(1, -9)), failed(r0=lost, r1=ended(1, 1))
    status, notes = start(2, killed, crashed, None)
    assert status == 0
    assert notes == [
        "the process of rank 1 was ended by SIGKILL; all are restarted",
        "the process of rank 1 ended with status 1; all are restarted",
    ]
    with pytest.raises(TrainingError, match="rank 1 was ended by SIGKILL, and the others"):
        start(0, killed)
    assert start(0, crashed)[0] == 1
    with pytest.raises(LostRankError, match="another process"):
        start(0, failed(r0=lost))


def test_a_request_to_stop_one_process_ends_the_launch(start):
    assert start(3, failed(r0=ended(0, 143), r1=ended(1, 143))) == (143, [])


def test_processes_of_torchrun_show_their_own_errors(left):
    """And torchrun shows them too."""
    error = CorpusError("a bad folder")
    assert left(0, error, Launch(2, 0)).message == str(error)


def test_both_launchers_count_restarts():
    around = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "a"}
    around |= {"MASTER_PORT": "1", RESTARTS_VARIABLE: "0"}
    assert not Launch.of_environment(around).by_devices
    launch = Launch.of_environment(around | {OWN_RESTARTS_VARIABLE: "2"})
    assert (launch.restarts, launch.by_devices) == (2, True)


def test_a_rank_whose_launcher_was_killed_before_it_could_join_ends_at_once():
    with socket.create_server(("127.0.0.1", 0)) as launcher:
        launch = Launch(2, 1, 1, f"127.0.0.1:{launcher.getsockname()[1]}")
        check_launcher(launch, {AGENT_STORE_VARIABLE: "True"})
    check_launcher(launch, {})  # rank 0 answers there, once it has started
    with pytest.raises(LostRankError, match=r"rank 1 of 2 cannot join .* does not answer there"):
        check_launcher(launch, {AGENT_STORE_VARIABLE: "True"})
