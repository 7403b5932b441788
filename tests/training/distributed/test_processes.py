"""What the launcher of several processes says, when, and what it starts again."""

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import pytest

from regard.errors import CorpusError, LostRankError, RegardError, TrainingError
from regard.json_files import parse_json
from regard.training.distributed import processes
from regard.training.distributed.launch import (
    ERROR_FILE_VARIABLE,
    OWN_RESTARTS_VARIABLE,
    PARENT_VARIABLE,
    RESTARTS_VARIABLE,
    STORE_VARIABLE,
    Launch,
)
from regard.training.distributed.process_group import AGENT_STORE_VARIABLE, check_launcher

PROGRAM = f"""
import os, signal, sys, time

def fail(lost, message):
    with open(os.environ["{ERROR_FILE_VARIABLE}"], "w") as file:
        file.write('{{"lost": %s, "message": "%s"}}' % (lost, message))
    sys.exit(1)

def wait(*handler):
    signal.signal(signal.SIGTERM, *handler)
    open("ready" + os.environ["RANK"], "w").close()
    time.sleep(60)

def stop(*_):
    sys.exit(143)

"""
LOST = "fail('true', 'another process')"
KILLED = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def start(monkeypatch, tmp_path):
    """Start ranks 0 and 1 that do what they are told: what is returned and said."""
    original, notes = processes._run, []
    monkeypatch.chdir(tmp_path)

    def start(max_restarts, *launches):
        rest = iter(launches)

        def run(command, variables, count):
            ranks = "\n".join(
                f"if os.environ['RANK'] == '{n}': {do}" for n, do in enumerate(next(rest))
            )
            return original([sys.executable, "-S", "-c", PROGRAM + ranks], variables, count)

        monkeypatch.setattr(processes, "_run", run)
        status = processes.start_processes(2, "cpu", max_restarts, notes.append)
        assert not list(rest)
        return status, notes

    return start


def test_a_signal_is_passed_on_and_the_launch_ends_when_all_have_ended(start):
    def send():
        while not (Path("ready0").exists() and Path("ready1").exists()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=send).start()
    saves = "wait(lambda *_: (time.sleep(0.3), open('saved', 'w').close(), stop()))"
    assert start(2, (saves, "wait(stop)")) == (143, [])
    assert Path("saved").exists()


def test_an_error_of_a_person_ends_the_launch_at_once_with_its_message_alone(start):
    with pytest.raises(RegardError, match=r"\Aa bad folder\Z"):
        start(3, (LOST, "fail('false', 'a bad folder')"))


def test_what_is_killed_or_crashes_is_started_again_and_then_named(start, monkeypatch):
    """The others are told to end, and killed if they do not."""
    monkeypatch.setattr(processes, "SHUTDOWN_SECONDS", 0.1)
    deaf = "wait(signal.SIG_IGN)"
    status, notes = start(2, (deaf, KILLED), ("wait(stop)", "sys.exit(1)"), ("0", "0"))
    assert status == 0
    assert notes == [
        "the process of rank 1 was ended by SIGKILL; all are restarted",
        "the process of rank 1 ended with status 1; all are restarted",
    ]
    with pytest.raises(TrainingError, match="rank 1 was ended by SIGKILL, and the others"):
        start(0, (LOST, KILLED))
    assert start(0, (LOST, "sys.exit(1)"))[0] == 1
    with pytest.raises(LostRankError, match="another process"):
        start(0, ("wait(stop)", LOST))


def test_a_request_to_stop_one_process_ends_the_launch(start):
    assert start(3, ("stop()", "stop()")) == (143, [])


def test_processes_meet_where_no_one_else_can_write(start):
    shown = f"print(oct(os.stat(os.path.dirname(os.environ['{STORE_VARIABLE}'])).st_mode), "
    shown += "os.environ['GLOO_SOCKET_IFNAME'], file=open('seen', 'w'))"
    assert start(0, (shown, "0"))[0] == 0
    assert Path("seen").read_text() == "0o40700 lo\n"


@pytest.mark.parametrize("launch", [Launch(2, 0), Launch(2, 0, parent=1)])
def test_processes_of_torchrun_show_their_own_errors(launch, tmp_path):
    """And torchrun shows them too."""
    file, error = tmp_path / "0.json", CorpusError("a bad folder")
    with (
        pytest.raises(SystemExit if launch.parent else CorpusError),
        launch.errors_to_launcher({ERROR_FILE_VARIABLE: str(file)}),
    ):
        raise error
    told = parse_json(file.read_bytes())
    assert (told["message"], told["lost"]) == ("a bad folder", False)


def test_both_launchers_are_recognised_and_count_restarts():
    around = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    of_torchrun = {"MASTER_ADDR": "a", "MASTER_PORT": "1", RESTARTS_VARIABLE: "2"}
    launch = Launch.of_environment(around | of_torchrun)
    assert launch == Launch(1, 0, 0, "a:1", 2)
    assert launch.resume_command(Path("run")).startswith("torchrun … -m regard train --resume")
    own = {STORE_VARIABLE: "file", PARENT_VARIABLE: "7", OWN_RESTARTS_VARIABLE: "2"}
    launch = Launch.of_environment(around | own)
    assert launch == Launch(1, 0, 0, "file", 2, 7)
    assert launch.resume_command(Path("run")) == "regard train --resume --out run --devices 1"


def test_a_rank_whose_launcher_was_killed_before_it_could_join_ends_at_once():
    with socket.create_server(("127.0.0.1", 0)) as launcher:
        launch = Launch(2, 1, 1, f"127.0.0.1:{launcher.getsockname()[1]}")
        check_launcher(launch, {AGENT_STORE_VARIABLE: "True"})
    check_launcher(launch, {})  # rank 0 answers there, once it has started
    with pytest.raises(LostRankError, match=r"rank 1 of 2 cannot join .* does not answer there"):
        check_launcher(launch, {AGENT_STORE_VARIABLE: "True"})
