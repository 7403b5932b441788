"""What a peer must do to run beside us.

A peer reads a model from a folder in a format of its own, which `export` writes from a run of ours,
so that a peer can be measured without loading a run. Nothing here imports torch: engines that do
not need it start without it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from regard.types import AnyBatch

Clock = Literal["wall", "processor"]
Precision = Literal["float32", "bfloat16", "int8"]


@dataclass(frozen=True)
class PeerConfig:
    """How a contender runs."""

    precision: Precision = "float32"
    threads: int = 1
    """Of each worker."""
    workers: int = 1
    """Sentences that an engine works on side by side, where it can."""
    device: str = "cpu"
    compiled: bool = False
    """Through torch.compile."""
    engine: str = ""
    """Which of our own engines."""
    clock: Clock = "wall"

    def now(self) -> float:
        """Seconds by the clock: those of the wall, or those that the processor spent on us.

        The latter, with one thread, are nearly what the wall would show on a machine that has
        nothing else to do.
        """
        return time.process_time() if self.clock == "processor" else time.perf_counter()


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a Transformer with one vocabulary for both languages."""

    encoder_layers: int = 4
    decoder_layers: int = 4
    width: int = 256
    heads: int = 4
    feed_forward: int = 1024
    dropout: float = 0.1
    norm: Literal["pre", "post"] = "post"
    vocabulary: int = 8000


class Trained(NamedTuple):
    """What a stretch of training took."""

    seconds: float
    tokens: int
    """Of the target, EOS counted, padding not."""
    loss: float
    """Of the last batch, in nats a target token, smoothed labels and dropout included."""


class Trainer(Protocol):
    """A fresh model and its optimizer."""

    def train(self, batches: Sequence["AnyBatch"]) -> Trained:
        """One update for each batch; the first is done before the clock starts."""
        ...


class Engine(Protocol):
    """A trained model as a function of text."""

    def translate(self, texts: Sequence[str], beam: int) -> list[str]:
        """Each text translated, by greedy search where the beam is 1."""
        ...


class Peer(Protocol):
    """A file of this folder; one that cannot train, or not translate, lacks those functions."""

    def export(self, run: Path, folder: Path) -> None:
        """Write the model of one of our runs into an empty `folder` as this peer reads it.

        An error if the peer's model then gives other logits than ours.
        """
        ...

    def open_engine(self, folder: Path, setup: PeerConfig) -> Engine:
        """The model in a folder that `export` wrote."""
        ...

    def open_trainer(self, shape: ModelShape, setup: PeerConfig) -> Trainer:
        """A fresh model."""
        ...
