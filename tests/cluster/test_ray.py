"""What needs Ray: bulk translation by the command, and the server's replicas, on one Ray."""

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from bench.bulk import ACTOR_TITLE, make_lines
from bench.process_tree import (
    LOOPBACK,
    descendants,
    kill,
    listening_addresses,
    processes_called,
)
from forks import Fork
from regard.cli.main import command_app
from regard.cluster.bulk import RayOptions
from regard.errors import RunError, SettingsError
from regard.interruption import InterruptedBySignal
from servers import client

NODE = Path(__file__).parents[1] / "ray_node.py"
PATIENCE = 120.0
"""Seconds after which a test gives up waiting, enough on a busy machine too."""
SENTENCE = "Jane visite l'Afrique en septembre."

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="needs pip install 'regard[cluster]'"),
]


def wait_until(happened, process):
    """What `happened()` returns once that is true, if `process` lives on until then."""
    until = time.monotonic() + PATIENCE
    while not (found := happened()):
        assert process.poll() is None, "ended too early"
        assert time.monotonic() < until, f"waited {PATIENCE} s in vain"
        time.sleep(0.02)
    return found


@contextmanager
def ray_node(run, log):
    """Ray with a replica of the server: its process and the server's URL.

    In the end none of its processes lives; they end by themselves where this one is killed.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # sockets have short paths
    with log.open("w") as file:
        node = subprocess.Popen(
            [sys.executable, str(NODE), str(run), folder, str(port)],
            stdin=subprocess.PIPE,
            stdout=file,
        )
    try:
        yield node, f"http://127.0.0.1:{port}"
    finally:
        for process in reversed(descendants(node.pid)):  # to end in order takes seconds
            kill(process)
        node.communicate()
        shutil.rmtree(folder, ignore_errors=True)


class LateFile:
    """A named pipe as an input: each reader blocks until it is fed."""

    def __init__(self, path, lines):
        self.path, self._lines = path, lines
        os.mkfifo(path)

    def feed(self, process):
        """Write all lines once `process`, or a child of it, opens the pipe."""

        def open_pipe():
            with suppress(OSError):  # it is not open for reading yet
                return os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)

        with os.fdopen(wait_until(open_pipe, process), "wb") as pipe:
            pipe.write(self._lines)


def test_bulk_and_the_server_on_ray_answer_as_without_it_while_actors_and_the_command_are_killed(
    tiny_run, tmp_path, monkeypatch
):
    for name, value in RayOptions().environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RAY_memory_monitor_refresh_ms", "0")  # others may fill the memory
    asked = {"q": [SENTENCE, "", "Paul aime la mer."], "source": "fr", "target": "en"}
    log = tmp_path / "node.log"
    with ray_node(tiny_run, log) as (node, url):
        with client(tiny_run) as server:
            expected = server.post("/translate", json=asked).json()
        check_bulk(tiny_run, tmp_path, node, log)
        wait_until(lambda: "ready" in log.read_text(), node)
        with httpx.Client(base_url=url, timeout=PATIENCE) as remote:
            assert remote.post("/translate", json=asked).json() == expected
            assert remote.get("/ready").json()["models"] == ["fr-en"]
            assert "static/page/" in remote.get("/").text
            sent = remote.post("/translate_file", data=asked, files={"file": ("a.txt", SENTENCE)})
            translated = remote.get(sent.json()["translatedFileUrl"]).text
            assert translated == expected["translatedText"][0]
        replicas = processes_called(node.pid, "ray::ServeReplica")  # Ray's own gRPC is at [::]
        assert replicas
        assert listening_addresses(node.pid, without=replicas) <= LOOPBACK


def check_bulk(run, folder, node, log):
    """Three files; actors are killed at the second, the command itself before the third."""
    source, out = folder / "source.txt", folder / "out"
    make_lines(source, 600)
    lines = source.read_bytes().splitlines(keepends=True)
    first = folder / "first.txt"
    first.write_bytes(b"".join(lines[:200]))
    second = LateFile(folder / "second.txt", b"".join(lines[200:400]))
    third = LateFile(folder / "third.txt", b"".join(lines[400:]))
    options = ("--beam", "1", "--device", "cpu", "--engine", "ctranslate2")
    inputs = (first, second.path, third.path)
    plain = CliRunner().invoke(command_app("translate"), [str(run), str(source), *options])
    address = wait_until(log.read_text, node).split()[0]
    bulk = ("bulk", run, *inputs, "--out", out, "--address", address, *options)
    with Fork(folder / "killed.log", *bulk, "--actors", "2") as killed:
        second.feed(killed)  # to be counted
        third.feed(killed)
        wait_until((out / "first.txt").exists, killed)
        actors = processes_called(node.pid, ACTOR_TITLE)
        for actor in actors:
            os.kill(actor, signal.SIGSTOP)
        second.feed(killed)
        time.sleep(0.5)  # until the block is with one of them
        for actor in actors:
            kill(actor)
        wait_until((out / "second.txt").exists, killed)
        assert "raylet" not in killed.said()
    assert not (out / "third.txt").exists()
    with Fork(folder / "again.log", *bulk, "--actors", "1") as again:
        second.feed(again)
        third.feed(again)
        wait_until(lambda: "400 of 600 lines are finished" in again.said(), again)
        third.feed(again)
        assert again.wait(PATIENCE) == 0, again.said()
    outputs = b"".join((out / one.name).read_bytes() for one in inputs)
    assert outputs == plain.stdout_bytes


def test_of_rays_log_its_level_is_not_shown_and_what_it_repeats_once(capfd):
    ray_bulk = import_module("regard.cluster.ray_bulk")
    with ray_bulk._without_repeated_lines():
        os.write(2, b"[I 1] logging.cc:303: Set ray log level from environment variable X to 3\n")
        os.write(2, b"no memory\n")
        os.write(2, b"[05:44:43 W 1] gcs_client.cc:210: no token\n")
        os.write(2, b"[05:44:44 W 1] gcs_client.cc:210: no token\n")
    said = capfd.readouterr().err
    assert said == "no memory\n[05:44:44 W 1] gcs_client.cc:210: no token\n"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # ray.serve's, of its own settings
def test_replicas_in_another_folder_find_models_files_and_keys(tmp_path, monkeypatch):
    ray_serve = import_module("regard.cluster.ray_serve")
    monkeypatch.chdir(tmp_path)
    Path("lr=2").mkdir()
    models = "fr-en=runs/a,b,lr=2,fr-en=lr=2/c"
    given = ray_serve.ServeArguments(models=models, files="files", keys="keys")
    [bound] = ray_serve.app(given)._bound_deployment.init_args
    here = str(tmp_path)
    found = f"fr-en={here}/runs/a", f"{here}/b", f"{here}/lr=2", f"fr-en={here}/lr=2/c"
    assert bound.models == found
    assert (bound.files, bound.keys) == (tmp_path / "files", tmp_path / "keys")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # ray.serve's, of its own settings
def test_a_replica_refuses_what_it_has_no_time_for(tiny_run):
    ray_serve = import_module("regard.cluster.ray_serve")
    arguments = ray_serve.ServeArguments(models=(str(tiny_run),), device="cpu")
    replica = ray_serve.TranslationReplica.__bases__[0](arguments)  # Ray's own cannot be called
    transport = httpx.ASGITransport(replica.__serve_build_asgi_app__())

    async def ask():
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as remote:
            with replica._app.state.service.models.served[0].batcher.reserve(1000):
                asked = {"q": SENTENCE, "source": "fr", "target": "en"}
                return await remote.post("/translate", json=asked)

    assert "than it can answer in time" in asyncio.run(ask()).json()["error"]


@pytest.mark.parametrize("connected", [False, True])
def test_sigterm_interrupts_though_ray_has_a_handler_of_its_own(connected, monkeypatch):
    ray_bulk, before = import_module("regard.cluster.ray_bulk"), signal.getsignal(signal.SIGTERM)

    def init(**_):
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
        if not connected:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(ray_bulk.ray, "init", init)
    with pytest.raises(InterruptedBySignal) as stopped, ray_bulk.ray_cluster(RayOptions(actors=1)):
        signal.raise_signal(signal.SIGTERM)
    assert stopped.value.number == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_an_error_of_an_actor_or_a_reader_is_one_line_without_rays_advice():
    ray_bulk, errors = map(import_module, ("regard.cluster.ray_bulk", "ray.exceptions"))
    advice = (
        "\nFailed to apply UDF transform after 1/1 attempts (total backoff 0.0s).\nTo change retry "
        "attempts, configure `ray.data.DataContext.get_current()`."
    )
    ours = RunError(f"runs/a: damaged{advice}{advice}")
    found = ray_bulk._as_our_error(errors.RayTaskError("read", "trace", ours))
    assert str(found) == "runs/a: damaged"
    memory = errors.RayTaskError("map", "trace", MemoryError(f"no room{advice}"))
    assert str(ray_bulk._as_our_error(memory)).startswith("an actor failed: no room; finished")
    died = errors.RayError("the actor died\n  trace\nregard.errors.RunError: runs/a: damaged\n")
    assert str(ray_bulk._as_our_error(died)).startswith("an actor failed: runs/a: damaged; fin")


def test_an_address_where_no_cluster_is_ends_at_once():
    module = pytest.importorskip("regard.cluster.ray_bulk")
    for address, message in {
        "127.0.0.1:1": "no Ray cluster answers",
        "ray://a:1": "HOST:PORT",
    }.items():
        with pytest.raises(SettingsError, match=message):
            module._check_address(address)
