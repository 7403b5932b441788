"""Models whose graphs onnxruntime runs, for our own search and for comparisons."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import Tensor

from regard.errors import RunError, SettingsError
from regard.exchange.onnx_graphs import (
    ANSWERS,
    BROWSER_FOLDER,
    DECODER_FILE,
    ENCODER_FILE,
    ENCODER_MASK,
    ENCODER_STATES,
    HIDDEN,
    INPUT_NAMES,
    LOGITS,
    MERGED_FILE,
    MODEL_FILE,
    PAST,
    PAST_KEY_VALUES,
    PRESENT,
    TOKENS,
    USE_CACHE,
    named_inputs,
)
from regard.models.contracts import AnyGenerator, Generator, gather_parents
from regard.settings import abbreviate
from regard.types import AttentionHook, Features, Padded

ERRORS_ONLY = 3  # a level of onnxruntime's log


class OnnxGraph:
    """A graph on all cores, or on `threads` of them."""

    def __init__(self, path: Path, *, threads: int = 0) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = ERRORS_ONLY
        options.intra_op_num_threads = threads
        self._path = path
        with self._told():
            self.session = onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        self.inputs = [one.name for one in self.session.get_inputs()]
        self.outputs = [one.name for one in self.session.get_outputs()]

    def __call__(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The outputs by name; those of `tensors` that the graph does not use are ignored."""
        with self._told():
            given = {name: np.ascontiguousarray(tensors[name].numpy()) for name in self.inputs}
            found = self.session.run(None, given)
        return dict(zip(self.outputs, map(torch.from_numpy, found), strict=True))

    @contextmanager
    def _told(self) -> Iterator[None]:
        """A context in which errors of onnxruntime become a `RunError`."""
        try:
            yield
        except Exception as error:  # they have no common type
            raise RunError(
                f"{self._path}: onnxruntime {onnxruntime.__version__} cannot run it: "
                f"{abbreviate(str(error))}"
            ) from None


@dataclass(frozen=True)
class OnnxState:
    """The tensors of a decoder's state, with a cell for each hypothesis: (B, K, ...)."""

    tensors: dict[str, Tensor]

    def select_sentences(self, sentences: Tensor) -> "OnnxState":
        return OnnxState({name: x[sentences] for name, x in self.tensors.items()})

    def reorder(self, parents: Tensor) -> "OnnxState":
        return OnnxState({name: gather_parents(x, parents) for name, x in self.tensors.items()})


class OnnxDecoder:
    """The two graphs of a model that generates, as a `Decoder` of our search."""

    def __init__(self, folder: Path, *, threads: int = 0) -> None:
        self._encoder = OnnxGraph(folder / ENCODER_FILE, threads=threads)
        self._decoder = OnnxGraph(folder / DECODER_FILE, threads=threads)

    def start(self, inputs: Any) -> OnnxState:
        """The state before the first token, for inputs of the model's kind."""
        found = self._encoder(named_inputs(inputs))
        return OnnxState({name.removeprefix(PRESENT): x[:, None] for name, x in found.items()})

    def step(
        self, tokens: Tensor, state: OnnxState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, OnnxState]:
        given = {f"{PAST}{name}": x.flatten(0, 1) for name, x in state.tensors.items()}
        logits, present = self._run_decoder(tokens, given, hook)
        return logits, OnnxState(present)

    def _run_decoder(
        self, tokens: Tensor, given: Mapping[str, Tensor], hook: AttentionHook | None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits (B, K, V) after tokens (B, K), and the new state's tensors (B, K, ...)."""
        if hook is not None:
            raise ValueError("an ONNX graph returns no attention; use the native engine")
        found = self._decoder({TOKENS: tokens.reshape(-1, 1), **given})
        cells = {name: torch.unflatten(x, 0, tokens.shape) for name, x in found.items()}
        logits = cells.pop(LOGITS).squeeze(2)  # (B, K, V)
        return logits, {name.removeprefix(PRESENT): x for name, x in cells.items()}

    def to_static(self, state: OnnxState, steps: int, step_counter: Tensor) -> None:
        return None


class BrowserDecoder(OnnxDecoder):
    """The two graphs of transformers.js, whose decoder takes the encoder's output at each step."""

    def __init__(self, folder: Path, *, threads: int = 0) -> None:
        place = folder / BROWSER_FOLDER
        [encoder], [decoder] = (
            sorted(place.glob(f"{Path(name).stem}*.onnx")) for name in (ENCODER_FILE, MERGED_FILE)
        )
        self._encoder = OnnxGraph(encoder, threads=threads)
        self._decoder = OnnxGraph(decoder, threads=threads)

    def start(self, inputs: Any) -> OnnxState:
        given = named_inputs(inputs)
        states, mask = self._encoder(given)[HIDDEN], given[INPUT_NAMES["mask"]]
        past = {
            one.name: torch.zeros([len(states), *(_fixed_length(size) for size in one.shape[1:])])
            for one in self._decoder.session.get_inputs()
            if one.name.startswith(PAST_KEY_VALUES)
        }
        tensors = {ENCODER_STATES: states, ENCODER_MASK: mask, **past}
        return OnnxState({name: x[:, None] for name, x in tensors.items()})

    def step(
        self, tokens: Tensor, state: OnnxState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, OnnxState]:
        given = {name: x.flatten(0, 1) for name, x in state.tensors.items()}
        cached = any(x.shape[2] > 0 for name, x in given.items() if ".decoder." in name)
        given[USE_CACHE] = torch.tensor([cached])
        logits, present = self._run_decoder(tokens, given, hook)
        past = {f"{PAST_KEY_VALUES}{name}": x for name, x in present.items()}
        return logits, OnnxState({**state.tensors, **past})


def _fixed_length(size: int | str) -> int:
    """The length of an axis; 0 for a dynamic one."""
    return 0 if isinstance(size, str) else size


def open_decoder(folder: Path, *, threads: int = 0) -> OnnxDecoder:
    """The graphs of a model that generates, in a folder, under our names or transformers.js's."""
    kind = BrowserDecoder if (folder / BROWSER_FOLDER).is_dir() else OnnxDecoder
    return kind(folder, threads=threads)


class OnnxGenerator(Generator[Any, Any, Any]):
    """A model whose search steps onnxruntime runs; `decode` is that of `model`, from which the
    graphs were made.
    """

    def __init__(self, model: AnyGenerator, decoder: OnnxDecoder) -> None:
        super().__init__()
        self.model, self.decoder, self.max_length = model, decoder, model.max_length

    def encode(self, inputs: Any, *, hook: AttentionHook | None = None) -> Any:
        if hook is not None:
            raise SettingsError("the engine onnx cannot record or change attention; use native")
        return inputs

    def decode(self, given: Padded, memory: Any, *, hook: AttentionHook | None = None) -> Features:
        return self.model.decode(given, self.model.encode(memory), hook=hook)

    def start(self, memory: Any) -> OnnxState:
        return self.decoder.start(memory)

    def step(
        self, tokens: Tensor, state: OnnxState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, OnnxState]:
        return self.decoder.step(tokens, state, hook=hook)

    def logits(self, features: Tensor) -> Tensor:
        return self.model.logits(features)


def onnx_answers(folder: Path, inputs: Any) -> Tensor:
    """The answers of a model that does not generate, computed by its graph."""
    return OnnxGraph(folder / MODEL_FILE)(named_inputs(inputs))[ANSWERS]
