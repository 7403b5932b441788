"""Where decoders are in a search that carry a bounded past: recurrent, or convolutional."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from regard.attention.attend import KeyValues
from regard.layers.attentive import AttentiveLayer
from regard.layers.recurrent import Hidden, RecurrentLayer, by_kind
from regard.models.contracts import take
from regard.types import Memory


@dataclass(frozen=True)
class RecurrentState:
    """The state of a decoder that carries all it knows in a fixed number of vectors."""

    cells: Hidden  # each (B, K, D), or a window (B, K, ·, D) of what a convolution read last

    def keep(self, sentences: Tensor) -> Self:
        return replace(self, cells=tuple(x[sentences] for x in self.cells))

    def branch(self, parents: Tensor) -> Self:
        return replace(self, cells=tuple(take(x, parents) for x in self.cells))


@dataclass(frozen=True)
class AttentiveState(RecurrentState):
    """The same, of a decoder that can look back at the source."""

    memory: KeyValues  # (B, 1, S, D)
    real: Tensor  # (B, S)
    position: int = 0
    """Of the token that comes next."""

    def keep(self, sentences: Tensor) -> Self:
        kept = super().keep(sentences)
        return replace(kept, memory=self.memory.rows(sentences), real=self.real[sentences])


def blank_state(
    bottom: AttentiveLayer, above: Iterable[RecurrentLayer], memory: Memory
) -> AttentiveState:
    """Where a stack begins that knows nothing but can look.

    The cells of `bottom`, which is no part of the stack above it, come first; behind them lie
    those of the stack, as `Hidden` has them.
    """
    rows = len(memory.mask)
    cells = (*bottom.layer.blank(rows), *by_kind([layer.blank(rows) for layer in above]))  # (B, D)
    return AttentiveState(
        tuple(h[:, None] for h in cells),  # each (B, 1, D)
        bottom.prepare(memory.states),
        memory.mask,
    )
