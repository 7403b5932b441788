"""Whether Ray Serve loses an answer while a replica is killed and an update goes through.

    python -m bench ray_serve MODEL [--clients N] [--seconds N] [--replicas N]

Serves the model on Ray Serve on this machine, and loads it from this process as `bench serve` does.
After a quarter of the time a replica is killed with SIGKILL; after half of it the application is
deployed again with another setting, so that every replica is replaced, and clients go on until they
are. Each answer is compared with
what the model says to that sentence alone. Ends with 1 if one was wrong or none.
"""

import argparse
import asyncio
import os
import random
import socket
import time

from bench.process_tree import kill, processes_called
from bench.serve import ClientLoad, expect, measure

RETRY = "conn-failure empty-response"  # a translation may be asked for twice
REPLICA_TITLE = "ServeReplica:default:regard"
EXTRA_SECONDS = 5.0  # that clients ask on at a time, until the update is through
ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_SERVE_ENABLE_HA_PROXY": "1",
    "RAY_SERVE_HAPROXY_RETRY_ON": RETRY,
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def say(message: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {message}", flush=True)


async def load_and_disturb(asked: argparse.Namespace, port: int) -> ClientLoad:
    """Let clients ask while a replica is killed and the application is updated."""
    from regard.cluster.ray_serve import ServeArguments, app

    expected, languages = expect(asked.model, asked.texts)

    async def disturb() -> None:
        await asyncio.sleep(asked.seconds / 4)
        replica = random.choice(processes_called(os.getpid(), REPLICA_TITLE))
        say(f"killing replica {replica}")
        kill(replica)
        await asyncio.sleep(asked.seconds / 4)
        say("updating")
        changed = ServeArguments(models=(asked.model,), replicas=asked.replicas, window=0.004)
        await asyncio.to_thread(deploy, app(changed))
        say("updated")

    disturbing = asyncio.create_task(disturb())
    load = await measure(port, expected, languages, asked.clients, asked.seconds)
    while not disturbing.done():  # the last replica is drained for half a minute
        more = await measure(port, expected, languages, asked.clients, EXTRA_SECONDS)
        both = load.seconds + more.seconds
        load = ClientLoad(load.clients, both, load.took + more.took, load.wrong + more.wrong)
    await disturbing
    return load


def deploy(application: object) -> None:
    """Run the application, and wait until all its replicas are of this version."""
    from ray import serve

    serve.run(application)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", help="a run's folder")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--texts", type=int, default=500, help="unlike sentences")
    asked = parser.parse_args()
    os.environ.update(ENVIRONMENT)  # Ray reads it when it is imported
    import ray
    from ray import serve

    from regard.cluster.ray_serve import ServeArguments, app

    ray.init(include_dashboard=False, log_to_driver=False, num_cpus=2 * asked.replicas)
    port = free_port()
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        deploy(app(ServeArguments(models=(asked.model,), replicas=asked.replicas)))
        load = asyncio.run(load_and_disturb(asked, port))
    finally:
        serve.shutdown()
        ray.shutdown()
    print(f"{'clients':>7} {'answered':>9} {'a second':>9} {'median ms':>9} {'99% ms':>9}   wrong")
    load.show()
    return 1 if load.wrong else 0
