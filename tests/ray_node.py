"""Ray on this machine, with the server on it, until the standard input ends.

    python ray_node.py RUN FOLDER PORT

The server keeps its files in FOLDER; Ray's own are in FOLDER/ray. Prints Ray's address, then a line
when the server answers at PORT.
"""

import logging
import sys
from pathlib import Path

import ray

LOOPBACK = "127.0.0.1"


def main(run: str, folder: str, port: str) -> None:
    ray.init(
        address="local",
        num_cpus=3,  # two actors and a replica
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=80 << 20,
        _temp_dir=f"{folder}/ray",
    )
    try:
        print(ray.get_runtime_context().gcs_address, flush=True)
        from ray import serve  # which takes seconds; the address is used meanwhile

        from regard.cluster.ray_serve import ServeArguments, app

        serve.start(http_options={"host": LOOPBACK, "port": int(port)})
        serve.run(app(ServeArguments(models=(run,), device="cpu", files=Path(folder))))
        print("ready", flush=True)
        sys.stdin.read()
        serve.shutdown()
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
