"""What is left of the answers when more is asked than a server can do: `bench serve --overload`.

The capacity is what clients that wait for their answers get. Then requests come at 1, 2, 5 and 10
times that rate, at random times and however many are unanswered (an open loop). An answer counts if
it is right and comes within the time limit, from when its request was due. Nothing is counted
before the limit has passed once: by then a queue is as long as it becomes. A process of its own
asks `/health` meanwhile, over one open connection.
"""

import asyncio
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import NamedTuple

from bench.serve import Connection
from bench.statistics import percentile

FACTORS = (1, 2, 5, 10)
KEPT = 0.8
"""Part of the highest goodput that each rate should keep."""
HEALTH_SECONDS = 0.25
"""Within which /health should be answered, at the 99th percentile."""
WAITING_CLIENTS = 16
"""Clients that measure the capacity."""
PROBE = """
import json, signal, socket, sys, time
took, asked = [], b"GET /health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n"
signal.signal(signal.SIGTERM, lambda *_: (print(json.dumps(took)), sys.exit()))
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    while True:
        began = time.perf_counter()
        connection.sendall(asked)
        answer = b""
        while not answer.endswith(b"}"):
            answer += connection.recv(4096)
        took.append(time.perf_counter() - began)
        time.sleep(0.02)
"""

Load = Callable[[float], Coroutine[None, None, None]]
"""Asks until a time."""


class Outcome(NamedTuple):
    """What became of the requests of some seconds at one rate."""

    asked: float
    """Requests a second."""
    goodput: float
    """Right answers in time, a second."""
    translated: float
    """Sentences that were translated a second, whether somebody got them or not."""
    took: list[float]
    """Seconds of each right answer in time."""
    other: Counter[str]
    """What else there was, and how often."""
    health: list[float]
    """Seconds in which /health was answered."""

    def show(self, name: str, peak: float) -> None:
        """Print a row."""
        took = [1000 * percentile(self.took or [0.0], share) for share in (0.5, 0.99)]
        print(
            f"{name:>8} {self.asked:>8.1f} {self.goodput:>8.1f} {self.goodput / peak:>8.0%} "
            f"{self.translated:>11.0f} {took[0]:>9.0f} {took[1]:>9.0f} "
            f"{1000 * percentile(self.health, 0.99):>12.0f} {1000 * max(self.health):>8.0f}   "
            f"{dict(self.other) or 'none'}",
            flush=True,
        )


class Asking:
    """Requests of some sentences each to one server, over connections that are kept."""

    def __init__(
        self, port: int, expected: dict[str, str], languages: dict[str, str], sentences: int
    ) -> None:
        self._port, self._expected, self._languages = port, expected, languages
        self._sentences, self._texts = sentences, list(expected)
        self._idle: list[Connection] = []
        self._answered: list[tuple[float, float]] = []  # when, and after how many seconds
        self._other: list[tuple[float, str]] = []

    async def ask(self, due: float) -> int:
        """The status of one request that is due at a time; 0 if there was no answer."""
        texts = random.choices(self._texts, k=self._sentences)
        connection = self._idle.pop() if self._idle else Connection(self._port)
        try:
            status, answer = await connection.translate({"q": texts, **self._languages})
        except (OSError, asyncio.IncompleteReadError) as error:
            connection.close()
            self._other.append((time.perf_counter(), type(error).__name__))
            return 0
        self._idle.append(connection)
        now = time.perf_counter()
        if status != 200:
            self._other.append((now, f"status {status}"))
        elif answer["translatedText"] != [self._expected[text] for text in texts]:
            self._other.append((now, "another's answer"))
        else:
            self._answered.append((now, now - due))
        return status

    async def wait_for_answers(self, until: float) -> None:
        """Clients that each wait for an answer before they ask again."""

        async def client() -> None:
            while (now := time.perf_counter()) < until:
                if await self.ask(now) != 200:
                    await asyncio.sleep(0.1)

        await asyncio.gather(*(client() for _ in range(WAITING_CLIENTS)))

    async def ask_at(self, rate: float, until: float) -> None:
        """Requests at random times, so many a second."""
        began, running = time.perf_counter(), set[asyncio.Task[int]]()
        for number in range(int((until - began) * rate)):
            due = began + (number + random.random()) / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            task = asyncio.create_task(self.ask(due))
            running.add(task)
            task.add_done_callback(running.discard)
        await asyncio.gather(*running)

    async def measure(self, load: Load, seconds: float, limit: float) -> Outcome:
        """What a load gives in so many seconds, when it has lasted as long as the time limit."""
        probe = [sys.executable, "-c", PROBE, str(self._port)]
        with subprocess.Popen(probe, stdout=subprocess.PIPE, text=True) as probing:
            began = time.perf_counter() + limit
            until = began + seconds
            loading = asyncio.create_task(load(until))
            await asyncio.sleep(began - time.perf_counter())
            before, began = await self._num_translated(), time.perf_counter()
            await asyncio.sleep(until - time.perf_counter())
            after, until = await self._num_translated(), time.perf_counter()
            await loading
            probing.terminate()
            health = json.loads(probing.communicate()[0])
        seconds = until - began
        took = [one for at, one in self._answered if began <= at < until]
        good = [one for one in took if one <= limit]
        other = Counter(what for at, what in self._other if began <= at < until)
        if late := len(took) - len(good):
            other["late"] = late
        asked = (len(took) + other.total()) / seconds
        translated = (after - before) / seconds
        return Outcome(asked, len(good) / seconds, translated, good, other, health)

    async def _num_translated(self) -> float:
        connection = Connection(self._port)
        _, text = await connection.request("GET", "/metrics")
        connection.close()
        found = re.search(rb"^regard_batch_lines_sum\S* (\S+)", text, re.MULTILINE)
        return float(found[1]) if found else 0.0


def overload(
    port: int,
    expected: dict[str, str],
    languages: dict[str, str],
    sentences: int,
    seconds: float,
    limit: float,
) -> bool:
    """Print what each rate gives; whether all is as it should be."""
    print(f"requests of {sentences} sentences, to be answered within {limit:g} s")
    print(f"{'load':>8} {'asked/s':>8} {'good/s':>8} {'of peak':>8} {'sentences/s':>11} ", end="")
    print(f"{'p50 (ms)':>9} {'p99 (ms)':>9} {'health p99':>12} {'highest':>8}   other")
    found: list[Outcome] = []
    for factor in (0, *FACTORS):
        asking = Asking(port, expected, languages, sentences)
        load: Load = asking.wait_for_answers
        if factor:
            rate = factor * found[0].goodput
            load = partial(asking.ask_at, rate)
        found.append(asyncio.run(asking.measure(load, seconds, limit)))
        peak = max(one.goodput for one in found)
        found[-1].show(f"{factor} times" if factor else "waiting", peak)
    return all(
        one.goodput >= KEPT * peak
        and percentile(one.health, 0.99) <= HEALTH_SECONDS
        and set(one.other) <= {"status 503", "status 504", "late"}
        for one in found[1:]
    )
