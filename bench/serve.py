"""How many requests a server answers a second: many clients at once against one at a time.

    python -m bench serve MODEL [--clients N ...] [--seconds N] [--texts N] [--workers N]
    python -m bench serve MODEL --overload [--sentences N] [--timeout N] [--engine ENGINE]

Starts `regard serve MODEL` in a process of its own and loads it from this one with sentences of the
run's test split: by one client that waits for each answer before it asks again, then by more of
them at once. Each answer is compared with what the model says to that sentence alone, in this
process. Prints the requests answered a second, their median and 99th percentile, and what went
wrong; ends with 1 if anything did, or if the last number of clients is answered less than 1.5 times
as fast as the first. Clients and server share the machine's cores. With --overload, what is left
of the answers when up to ten times as much is asked as the server can do: `bench/overload.py`.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.recipes.run_folder import RunFolder, load_data
from regard.tasks.translation.pipeline import load

GOAL = 1.5
"""Times as fast that the last number of clients should be answered as the first."""


class ClientLoad(NamedTuple):
    """What became of the requests of some clients."""

    clients: int
    seconds: float
    took: list[float]
    """Seconds of each request that was answered rightly."""
    wrong: Counter[str]
    """What went wrong, and how often."""

    @property
    def rate(self) -> float:
        return len(self.took) / self.seconds

    def show(self) -> None:
        """Print a row."""
        cuts = statistics.quantiles(self.took, n=100)
        print(
            f"{self.clients:>7} {len(self.took):>9,} {self.rate:>9.1f} {1000 * cuts[49]:>9.0f} "
            f"{1000 * cuts[98]:>9.0f}   {dict(self.wrong) or 'none'}"
        )


def expect(model: str, number: int) -> tuple[dict[str, str], dict[str, str]]:
    """Some sentences with their translations, each made alone; and the fields naming languages."""
    data = load_data(RunFolder(Path(model)))
    sentences = list(dict.fromkeys(pair.source for pair in islice(data.read("test"), number)))
    translator = load(model, device="cpu", precision="float32")  # as the server does
    languages = dict(zip(("source", "target"), data.languages, strict=True))
    return {one: translator(one).text for one in sentences}, languages


class Connection:
    """One client's connection, which is kept. A client library would need more time than we do."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def translate(self, asked: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the body of the answer."""
        status, found = await self.request("POST", "/translate", json.dumps(asked).encode())
        return status, json.loads(found)

    async def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """The status and the body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/json\r\n\r\n"
        )
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", answer)
        assert length is not None, answer
        found = await reader.readexactly(int(length[1]))
        if re.search(r"\r\nconnection: close\r\n", answer, re.IGNORECASE):
            self.close()
        return int(answer.split()[1]), found

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def measure(
    port: int, expected: dict[str, str], languages: dict[str, str], clients: int, seconds: float
) -> ClientLoad:
    """Let so many clients ask for so long."""
    took: list[float] = []
    wrong: Counter[str] = Counter()
    sentences, began = list(expected), time.perf_counter()

    async def ask() -> None:
        connection = Connection(port)
        while time.perf_counter() < began + seconds:
            sentence, asked = random.choice(sentences), time.perf_counter()
            try:
                status, answer = await connection.translate({"q": sentence, **languages})
            except (OSError, asyncio.IncompleteReadError) as error:
                wrong[type(error).__name__] += 1
                connection.close()
                continue
            if status != 200:
                wrong[f"status {status}"] += 1
            elif answer["translatedText"] != expected[sentence]:
                wrong["another's answer"] += 1
            else:
                took.append(time.perf_counter() - asked)
        connection.close()

    await asyncio.gather(*(ask() for _ in range(clients)))
    return ClientLoad(clients, time.perf_counter() - began, took, wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a run's folder")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 64], help="in order")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--texts", type=int, default=500, help="unlike sentences")
    parser.add_argument("--workers", type=int, default=1, help="of regard serve")
    parser.add_argument("--overload", action="store_true", help="ask more than it can do")
    parser.add_argument("--sentences", type=int, default=20, help="of a request, in overload")
    parser.add_argument("--timeout", type=float, default=4.0, help="of regard serve, in overload")
    parser.add_argument("--engine", default="auto", help="of regard serve")
    asked = parser.parse_args()
    expected, languages = expect(asked.model, asked.texts)
    command = [sys.executable, "-m", "regard", "serve", asked.model, "--device", "cpu"]
    command += ["--workers", str(asked.workers), "--engine", asked.engine]
    if asked.overload:
        command += ["--timeout", str(asked.timeout)]
    with subprocess.Popen([*command, "--port", "0"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        told = (re.search(r"http://\S+:(\d+)", line) for line in server.stderr)
        port = next(int(found[1]) for found in told if found)
        quiet = subprocess.Popen(["cat"], stdin=server.stderr, stdout=subprocess.DEVNULL)
        busy = os.getloadavg()[0]
        print(f"{len(expected)} sentences; {os.cpu_count()} cores, {busy:.1f} of them busy before")
        if asked.overload:
            from bench.overload import overload

            size, limit = asked.sentences, asked.timeout
            kept = overload(port, expected, languages, size, asked.seconds, limit)
            server.terminate()
            quiet.wait()
            return int(not kept)
        print("clients  answered   a second  p50 (ms)  p99 (ms)   wrong")
        found = []
        for clients in asked.clients:
            found.append(asyncio.run(measure(port, expected, languages, clients, asked.seconds)))
            found[-1].show()
        server.terminate()
        server.wait()
        quiet.wait()
    ratio = found[-1].rate / found[0].rate
    first, last = asked.clients[0], asked.clients[-1]
    print(f"{last} clients are answered {ratio:.1f} times as fast as {first}")
    return int(any(one.wrong for one in found) or ratio < GOAL)
