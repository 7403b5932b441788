"""States of recurrent and convolutional decoders, which carry a bounded past."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self, cast

import torch
from torch import Tensor

from regard.attention.attend import KeyValues
from regard.layers.recurrent import Hidden
from regard.models.contracts import gather_parents


@dataclass(frozen=True)
class RecurrentState:
    """The state of a decoder in a fixed number of vectors."""

    hidden_states: Hidden  # each (B, K, D), or the window (B, K, ·, D) of a convolution

    def select_sentences(self, sentences: Tensor) -> Self:
        return replace(self, hidden_states=tuple(x[sentences] for x in self.hidden_states))

    def reorder(self, parents: Tensor) -> Self:
        hidden_states = tuple(gather_parents(x, parents) for x in self.hidden_states)
        return replace(self, hidden_states=hidden_states)

    def named_tensors(self) -> dict[str, Tensor]:
        return {f"hidden.{index}": hidden for index, hidden in enumerate(self.hidden_states)}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        count = len(self.hidden_states)
        return replace(
            self, hidden_states=tuple(tensors[f"hidden.{index}"] for index in range(count))
        )


@dataclass(frozen=True)
class AttentionDecoderState(RecurrentState):
    """The state of such a decoder with attention to the source."""

    memory: KeyValues  # (B, 1, S, D)
    real: Tensor  # (B, S)
    position: int = 0  # of the next token; in a traced graph a tensor ()

    def select_sentences(self, sentences: Tensor) -> Self:
        memory, real = self.memory.select_sentences(sentences), self.real[sentences]
        return replace(super().select_sentences(sentences), memory=memory, real=real)

    def named_tensors(self) -> dict[str, Tensor]:
        return {
            **super().named_tensors(),
            "memory.keys": self.memory.keys,
            "memory.values": self.memory.values,
            "source_mask": self.real,
            "position": position_tensor(self.position, self.real),
        }

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        return replace(
            super().with_tensors(tensors),
            memory=KeyValues(tensors["memory.keys"], tensors["memory.values"]),
            real=tensors["source_mask"],
            position=cast(int, tensors["position"][0]),
        )


def position_tensor(position: int | Tensor, like: Tensor) -> Tensor:
    """The position of the next token, for each row of `like` (B, ...): (B,)."""
    rows = torch.zeros(like.shape[0], dtype=torch.long, device=like.device)
    return rows + position
