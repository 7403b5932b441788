"""Where decoders are in a search that carry a bounded past: recurrent, or convolutional."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Self

from torch import Tensor

from regard.attention.attend import KeyValues
from regard.layers.deep_lstm import AttentionLstm
from regard.layers.recurrent import Hidden, RecurrentLayer, merge_layer_states
from regard.models.contracts import gather_parents
from regard.types import Memory


@dataclass(frozen=True)
class RecurrentState:
    """The state of a decoder that carries all it knows in a fixed number of vectors."""

    hidden_states: (
        Hidden  # each (B, K, D), or a window (B, K, ·, D) of what a convolution read last
    )

    def select_sentences(self, sentences: Tensor) -> Self:
        return replace(self, hidden_states=tuple(x[sentences] for x in self.hidden_states))

    def reorder(self, parents: Tensor) -> Self:
        return replace(
            self, hidden_states=tuple(gather_parents(x, parents) for x in self.hidden_states)
        )


@dataclass(frozen=True)
class AttentionDecoderState(RecurrentState):
    """The same, of a decoder that can look back at the source."""

    memory: KeyValues  # (B, 1, S, D)
    real: Tensor  # (B, S)
    position: int = 0
    """Of the token that comes next."""

    def select_sentences(self, sentences: Tensor) -> Self:
        kept = super().select_sentences(sentences)
        return replace(
            kept, memory=self.memory.select_sentences(sentences), real=self.real[sentences]
        )


def initial_state(
    bottom: AttentionLstm, above: Iterable[RecurrentLayer], memory: Memory
) -> AttentionDecoderState:
    """Where a stack begins that knows nothing but can look.

    The cells of `bottom`, which is no part of the stack above it, come first; behind them lie
    those of the stack, as `Hidden` has them.
    """
    rows = len(memory.mask)
    hidden_states = (
        *bottom.layer.zero_state(rows),
        *merge_layer_states([layer.zero_state(rows) for layer in above]),
    )  # (B, D)
    return AttentionDecoderState(
        tuple(h[:, None] for h in hidden_states),  # each (B, 1, D)
        bottom.prepare(memory.states),
        memory.mask,
    )
