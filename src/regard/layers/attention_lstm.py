"""A recurrent layer that looks before it steps."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend
from regard.attention.masks import padding_mask
from regard.attention.scores import AdditiveScore, Score
from regard.layers.recurrent import Hidden, RecurrentLayer
from regard.types import AttentionHook, Site


class AttentionLstmOutput(NamedTuple):
    """What a layer found at each of T positions, and what it made of it."""

    contexts: Tensor  # (B, T, M)
    outputs: Tensor  # (B, T, D)


class AttentionLstm(nn.Module):
    """An LSTM whose last output is the query, and whose next input holds what was found.

        a_t = Σ_s softmax_s(vᵀ tanh(W h_{t-1} + U m_s)) m_s
        h_t = LSTM([x_t; a_t], h_{t-1})

    It is the bottom of a deep decoder. It must take its steps one after the other, for each query
    hangs on the step before; but it alone: once the contexts of all positions are known, the
    layers above can run over the whole target at once. Another `score` may stand in the softmax;
    `units` are those of `RecurrentLayer`.
    """

    def __init__(
        self,
        inputs: int,
        memory: int,
        width: int,
        alignment: int,
        *,
        score: Callable[[int, int, int], Score] = AdditiveScore,
        units: int | None = None,
    ) -> None:
        super().__init__()
        self.score = score(width, memory, alignment)
        self.layer = RecurrentLayer("lstm", inputs + memory, width, units=units)

    def prepare(self, memory: Tensor) -> KeyValues:
        """What `memory` (B, S, M) is looked at as: made once, used at each step."""
        return KeyValues(self.score.prepare(memory)[:, None], memory[:, None])  # (B, 1, S, ·)

    def forward(
        self, x: Tensor, kv: KeyValues, real: Tensor, *, hook: AttentionHook | None
    ) -> AttentionLstmOutput:
        """All positions of a given `x` (B, T, inputs), from a blank state."""
        hidden = tuple(h[:, None] for h in self.layer.zero_state(len(x)))  # each (B, 1, D)
        contexts, outputs = [], []
        for position, column in enumerate(x.unbind(1)):  # (B, inputs)
            site = Site("cross", 0, position)
            context, hidden = self.step(column[:, None], hidden, kv, real, site=site, hook=hook)
            contexts.append(context)
            outputs.append(hidden[0])
        return AttentionLstmOutput(torch.cat(contexts, 1), torch.cat(outputs, 1))

    def step(
        self,
        x: Tensor,
        hidden: Hidden,
        kv: KeyValues,
        real: Tensor,
        *,
        site: Site,
        hook: AttentionHook | None,
    ) -> tuple[Tensor, Hidden]:
        """What was found (B, K, M), and the state after `x` (B, K, inputs) was taken in with it.

        `real` (B, S) says where the memory is no padding.
        """
        query = hidden[0][:, None]  # (B, 1, K, D)
        mask = padding_mask(real)
        context = attend(self.score, query, kv, mask, site=site, hook=hook)[:, 0]  # (B, K, M)
        return context, self.layer.step(torch.cat([x, context], -1), hidden)
