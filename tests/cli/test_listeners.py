"""Where the processes of commands listen: not beyond this machine, unless they are told to.

`train --devices` is in `commands/test_train.py`, Ray Serve in `cluster/test_ray.py`.
"""

import os
import subprocess
import sys
import time
from importlib.util import find_spec

import pytest

from bench.process_tree import LOOPBACK, listening_addresses
from forks import Fork
from servers import process

pytestmark = pytest.mark.slow


def addresses_until_it_ends(running, seconds=500.0):
    """All addresses at which a process and its descendants listened."""
    seen, deadline = set(), time.monotonic() + seconds
    while running.poll() is None:
        assert time.monotonic() < deadline
        seen |= listening_addresses(running.pid)
        time.sleep(0.2)
    return seen


@pytest.mark.parametrize(("given", "found"), [((), "127.0.0.1"), (("--host", "::"), "::")])
def test_serve(given, found, tiny_run, tmp_path):
    with process(tmp_path, tiny_run, *given) as server:
        assert listening_addresses(server.process.pid) == {found}


@pytest.mark.skipif(find_spec("ray") is None, reason="needs pip install 'regard[cluster]'")
def test_bulk_with_a_ray_of_its_own(tiny_run, tmp_path):
    """And it leaves no token in a file."""
    source, log = tmp_path / "source.txt", tmp_path / "log"
    source.write_text("Elle danse.\n")
    home = {"HOME": str(tmp_path), "RAY_memory_monitor_refresh_ms": "0"}
    options = ("--out", tmp_path / "out", "--actors", "1", "--device", "cpu", "--engine", "native")
    with Fork(log, "bulk", tiny_run, source, *options, env=home) as running:
        seen = addresses_until_it_ends(running)
        assert running.wait() == 0, running.said()
    assert "127.0.0.1" in seen
    assert seen <= LOOPBACK
    assert not (tmp_path / ".ray").exists()


def test_tensorboard(tmp_path):
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, env=os.environ | {"CUDA_VISIBLE_DEVICES": ""}) as running:
        deadline = time.monotonic() + 120
        while not (seen := listening_addresses(running.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        running.terminate()
    assert seen <= LOOPBACK
