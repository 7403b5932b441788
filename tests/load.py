"""Clients that load a server from a process of their own, and check each answer.

    python load.py URL EXPECTED.json CLIENTS SECONDS

EXPECTED holds {text: translation}. Prints a JSON list with an object for each request: when it
began, when it was sent (null: it never was), the seconds it took, its status (0 if the connection
failed) and whether the answer was right.
"""

import asyncio
import json
import random
import sys
import time
from pathlib import Path

import httpx

PAIR = {"source": "fr", "target": "en"}


def noting_when_sent(one):
    """Notes in `one` when the last byte of a request was sent."""

    async def trace(event, details):
        if event == "http11.send_request_body.complete":
            one["sent"] = time.time()

    return trace


async def ask(client, texts, answers, until):
    """One client: sends texts one after the other until the time is over or it gets a 503."""
    while time.time() < until:
        text = random.choice(list(texts))
        one = {"began": time.time(), "sent": None, "status": 0, "right": False}
        answers.append(one)
        watch = {"trace": noting_when_sent(one)}
        try:
            reply = await client.post("/translate", json={"q": text, **PAIR}, extensions=watch)
        except httpx.HTTPError as error:
            one |= {"why": repr(error), "took": time.time() - one["began"]}
            return
        one |= {"status": reply.status_code, "took": time.time() - one["began"]}
        one["right"] = reply.json().get("translatedText") == texts[text]
        if reply.status_code == 503:
            return


async def load(url, texts, clients, seconds):
    """The results of all requests of `clients` clients at once."""
    limits = httpx.Limits(max_connections=clients, max_keepalive_connections=clients)
    answers, until = [], time.time() + seconds
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60) as client:
        await asyncio.gather(*(ask(client, texts, answers, until) for _ in range(clients)))
    return answers


if __name__ == "__main__":
    url, expected, clients, seconds = sys.argv[1:]
    texts = json.loads(Path(expected).read_text(encoding="utf-8"))
    print(json.dumps(asyncio.run(load(url, texts, int(clients), float(seconds)))))
