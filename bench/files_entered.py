"""How many files of `src/regard` a reader must open to follow one piece of work, by tracing it."""

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Self

import httpx
import torch

import regard
from regard.recipes.recipe_files import load_recipe
from regard.recipes.run_folder import RunFolder
from regard.recipes.train_run import train
from regard.server.app import build_app
from regard.server.served_models import LoadOptions, parse_model_spec
from regard.server.service import Service
from regard.server.settings import ServerSettings
from regard.tasks.translation.pipeline import Translator, load

SOURCE = Path(regard.__file__).parent
SENTENCE = "Jane visite l'Afrique en septembre."
TINY = (
    "corpus.generated={train: 300, valid: 20, test: 20}",
    "training.steps=5",
    "training.validation.every=1000",
)
"""Settings of a run whose steps neither log nor validate."""


class Tracer(AbstractContextManager["Tracer"]):
    """Records which files of the package are entered, by any thread, while it is switched on."""

    def __init__(self, until: CodeType | None = None, opaque: str | None = None) -> None:
        self.files: set[str] = set()
        self.on = False
        self._until = until
        """A function at whose call tracing ends."""
        self._opaque = opaque
        """A file that is counted, but not what its functions call."""
        self._stack = threading.local()

    def __enter__(self) -> Self:
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _enter(self, frame: FrameType, event: str, _: object) -> None:
        depth = getattr(self._stack, "depth", 0)  # of calls by this thread beneath the opaque file
        if depth:
            self._stack.depth = depth + {"call": 1, "return": -1}.get(event, 0)
            return
        code = frame.f_code
        if not self.on or event != "call" or not code.co_filename.startswith(str(SOURCE)):
            return
        file = str(Path(code.co_filename).relative_to(SOURCE))
        if code.co_name != "<module>":
            self.files.add(file)
        if code is self._until:
            self.on = False
        elif file == self._opaque:
            self._stack.depth = 1


def trace_training_step() -> set[str]:
    """Files that one plain step of training on a CPU enters, its batch included."""
    with tempfile.TemporaryDirectory() as folder, Tracer() as tracer:
        steps = iter(range(100))

        def stop_requested() -> bool:
            """Is asked after each step: the fourth is traced, and the last."""
            number = next(steps)
            tracer.on = number == 2
            return number == 3

        recipe = load_recipe("travel", TINY)
        train(
            recipe,
            RunFolder(Path(folder) / "run"),
            device=torch.device("cpu"),
            reporter=_Silent(),
            stop_requested=stop_requested,
        )
    return tracer.files


class _Silent:
    """A reporter that says nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def trace_greedy(run: Path) -> set[str]:
    """Files that the greedy translation of one sentence on a CPU enters, once all is loaded."""
    translator = load(run, device="cpu", engine="native")
    with Tracer() as tracer:
        tracer.on = True
        translator(SENTENCE, beam=1)
    return tracer.files


def trace_beam_step(run: Path) -> set[str]:
    """Files that one step of a beam search enters: from one call of the model to the next.

    On a GPU, where there is one. Steps are not replayed from a CUDA graph, in which no Python runs.
    """
    translator = load(run, device="auto", engine="native")
    model = translator.runs[0].model
    step, calls = model.step, iter(range(1000))
    with Tracer() as tracer:

        def counted(*args: Any, **kwargs: Any) -> Any:
            tracer.on = next(calls) == 3
            return step(*args, **kwargs)

        model.step = counted
        settings = translator.settings.model_copy(update={"capture": False})
        translator.translate([SENTENCE] * 64, settings)
    return tracer.files


def trace_http(run: Path) -> set[str]:
    """Files that POST /translate enters up to the translator.

    The translator is counted, what its methods call (segmentation, tokenization) is not.
    """
    spec = parse_model_spec(str(run))
    app = build_app(Service([spec], ServerSettings(), (), LoadOptions(device="cpu")))
    form = {"q": SENTENCE, "source": "fr", "target": "en"}

    async def ask() -> None:
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app.state.lifecycle)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                tracer.on = True
                (await client.post("/translate", data=form)).raise_for_status()

    until = Translator.translate_tokenized.__code__
    with Tracer(until=until, opaque="tasks/translation/pipeline.py") as tracer:
        asyncio.run(ask())
    return tracer.files


TRACES: dict[str, Callable[[Path], set[str]]] = {
    "a training step on a CPU": lambda _: trace_training_step(),
    "a greedy translation on a CPU": trace_greedy,
    f"a beam step on a {'GPU' if torch.cuda.is_available() else 'CPU'}": trace_beam_step,
    "an HTTP translation up to the translator": trace_http,
}


def main() -> int:
    """Print how many files each piece of work enters, and which."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, metavar="RUN", help="run of `travel`")
    parser.add_argument("--list", action="store_true", help="name the files, too")
    asked = parser.parse_args()
    for name, trace in TRACES.items():
        files = sorted(trace(asked.model))
        print(f"{name}: {len(files)} files")
        if asked.list:
            print("\n".join(f"  {file}" for file in files))
    return 0
