"""Servers to test: in this process, or `regard serve` in one of its own."""

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from fastapi import FastAPI

from forks import Fork
from regard.server.app import build_app
from regard.server.served_models import LoadOptions, parse_model_spec
from regard.server.service import Service
from regard.server.settings import ServerSettings

PATIENCE = 60.0
"""Seconds that a server may take to start, answer or stop on a busy machine."""


class Client:
    """Sends requests to a server in this process, on an event loop in a thread of its own."""

    def __init__(self, app: FastAPI, loop: asyncio.AbstractEventLoop) -> None:
        self.lifecycle, self.service = app.state.lifecycle, app.state.service
        self._loop = loop
        transport = httpx.ASGITransport(self.lifecycle, raise_app_exceptions=False)
        self._asking = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    def request(self, method: str, path: str, **request) -> httpx.Response:
        asking = self._asking.request(method, path, **request)
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result(PATIENCE)

    def get(self, path: str, **request) -> httpx.Response:
        return self.request("GET", path, **request)

    def post(self, path: str, **request) -> httpx.Response:
        return self.request("POST", path, **request)


@contextmanager
def client(*models, keys=(), load=(), **settings) -> Iterator[Client]:
    """A client of a server in this process; `load` says how its models are loaded."""
    specs = [parse_model_spec(str(one)) for one in models]
    options = LoadOptions(**{"device": "cpu", **dict(load)})
    service = Service(specs, ServerSettings(**settings), keys, options)
    app = build_app(service)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    life = app.router.lifespan_context(app)
    try:
        asyncio.run_coroutine_threadsafe(life.__aenter__(), loop).result(PATIENCE)
        yield Client(app, loop)
        asyncio.run_coroutine_threadsafe(life.__aexit__(None, None, None), loop).result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@dataclass
class Server:
    """`regard serve` in a process of its own."""

    process: subprocess.Popen | Fork
    url: str
    log: Path

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    def text(self) -> str:
        """All of its log, which a process that has only just begun may not have opened yet."""
        return self.log.read_text(encoding="utf-8") if self.log.exists() else ""

    def events(self) -> list[dict]:
        """What it has logged, line by line."""
        lines = self.text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def wait_for(self, event: str, count: int = 1) -> None:
        """Wait until it has logged an event so often."""
        until = time.monotonic() + PATIENCE
        while sum(one["event"] == event for one in self.events()) < count:
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < until, f"no {event!r} in {self.text()}"
            time.sleep(0.05)


@contextmanager
def process(folder: Path, *arguments, env=(), forked: bool = True) -> Iterator[Server]:
    """A server at a free port that logs to `folder`; it is killed at the end if it still lives.

    One that is not `forked` is started as users do, and imports all anew.
    """
    log = folder / "server.log"
    command = ["serve", *map(str, arguments), "--port", "0", "--device", "cpu"]
    running = Fork(log, *command, env=env) if forked else _start(log, command, env)
    server = Server(running, "", log)
    try:
        server.wait_for("listening")
        server.url = next(one["address"] for one in server.events() if "address" in one)
        yield server
    finally:
        running.kill()
        running.wait()


def _start(log, command, env) -> subprocess.Popen:
    with log.open("w") as file:
        return subprocess.Popen(
            [sys.executable, "-m", "regard", *command],
            stderr=file,
            env={**os.environ, "OMP_NUM_THREADS": "1", **dict(env)},
        )
