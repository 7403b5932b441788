"""A contender's own process: reads requests on its standard input and writes answers to its output,
a line of JSON each. It imports only the peer that it runs, so that its memory is the peer's.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.peers import open_peer
from bench.peers.contract import ModelShape, PeerConfig

Handler = Callable[[dict[str, Any]], dict[str, Any]]
"""A request -> its answer."""


def open_training(task: dict[str, Any]) -> Handler:
    """Train on the same batches at each request: seconds, target tokens and the last loss."""
    import torch

    from bench.batches import load_batches

    setup = PeerConfig(**task["setup"])
    if setup.device == "cpu":
        torch.set_num_threads(setup.threads)
    torch.manual_seed(1)
    batches = load_batches(Path(task["batches"]))
    trainer = open_peer(task["peer"]).open_trainer(ModelShape(**task["shape"]), setup)

    def train(_: dict[str, Any]) -> dict[str, Any]:
        return trainer.train(batches)._asdict()

    return train


def open_translating(task: dict[str, Any]) -> Handler:
    """Translate what each request holds: seconds and texts; one by one, where that is asked."""
    setup = PeerConfig(**task["setup"])
    engine = open_peer(task["peer"]).open_engine(Path(task["folder"]), setup)

    def translate(request: dict[str, Any]) -> dict[str, Any]:
        texts, beam, took = request["texts"], request["beam"], []
        parts = [[text] for text in texts] if request.get("apart") else [texts]
        said: list[str] = []
        for part in parts:
            began = setup.now()
            said += engine.translate(part, beam)
            took.append(setup.now() - began)
        return {"seconds": sum(took), "each": took, "texts": said}

    return translate


JOBS: dict[str, Callable[[dict[str, Any]], Handler]] = {
    "train": open_training,
    "translate": open_translating,
}


def main() -> None:
    """Open the job of the first line, then answer each further one until there is none."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # so that what a peer prints is no answer
    handle: Handler | None = None
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if handle is None:
                handle = JOBS[request["job"]](request)
                answer: dict[str, Any] = {"ready": True}
            else:
                answer = handle(request)
        except Exception as error:  # the contender's, not ours: the others go on
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
