"""The decoder of GNMT, Deep-Att and Moe: LSTM layers above an `AttentionLstm`."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from torch import Tensor, nn

from regard.kernels.dropout import Dropout
from regard.layers.deep_lstm import AttentionLstm
from regard.layers.recurrent import Hidden, RecurrentLayer, merge_layer_states
from regard.models.contracts import Generator
from regard.models.translation.recurrent_state import AttentionDecoderState
from regard.models.translation.token_rows import TOKEN_ROWS
from regard.types import AttentionHook, Features, Memory, Padded, Routing, Site


class BottomOutput(NamedTuple):
    """The input of the layers above: for a whole target (B, T, ·), or for a step (B, K, ·)."""

    embedded: Tensor  # the tokens' vectors
    contexts: Tensor  # of the attention
    outputs: Tensor  # of the bottom layer


class UpperOutput(NamedTuple):
    """The output of the layers above the bottom one."""

    features: Tensor  # (B, T, D)
    hidden: Hidden
    routings: tuple[Routing, ...] = ()


class DeepLstmModel(Generator[Padded, Memory, AttentionDecoderState]):
    """A decoder of which only the bottom layer runs step by step under teacher forcing.

    The others then run over the whole target in one call. The first state is zeros.
    """

    dropout: Dropout
    target: nn.Module
    bottom: AttentionLstm

    def named_rows(self) -> Mapping[str, str]:
        return TOKEN_ROWS

    @abstractmethod
    def upper_layers(self) -> Iterable[RecurrentLayer]:
        """The layers above the bottom one."""

    @abstractmethod
    def run_upper(
        self, bottom: BottomOutput, mask: Tensor | None, state: AttentionDecoderState | None
    ) -> UpperOutput:
        """Run the layers above: on a whole target with its `mask` (B, T), or on a step from
        `state`.
        """

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> Features:
        x = self.dropout(self.target(target.ids))  # (B, T, E)
        kv = self.bottom.prepare(memory.states)
        contexts, outputs = self.bottom(x, kv, memory.mask, hook=hook)  # (B, T, ·)
        features, _, routings = self.run_upper(
            BottomOutput(x, contexts, outputs), target.mask, None
        )
        return Features(features, memory.routings + routings)

    def start(self, memory: Memory) -> AttentionDecoderState:
        rows = memory.mask.shape[0]
        upper = merge_layer_states([layer.zero_state(rows) for layer in self.upper_layers()])
        hidden = (*self.bottom.layer.zero_state(rows), *upper)  # each (B, D)
        kv = self.bottom.prepare(memory.states)
        return AttentionDecoderState(tuple(h[:, None] for h in hidden), kv, memory.mask)

    def step(
        self, tokens: Tensor, state: AttentionDecoderState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, AttentionDecoderState]:
        x, site = self.dropout(self.target(tokens)), Site("cross", 0, state.position)  # (B, K, E)
        context, bottom = self.bottom.step(
            x, state.hidden_states[:2], state.memory, state.real, site=site, hook=hook
        )
        given = BottomOutput(x, context, bottom[0])
        features, upper, _ = self.run_upper(given, None, state)  # (B, K, D)
        state = replace(state, hidden_states=(*bottom, *upper), position=state.position + 1)
        return self.logits(features), state
