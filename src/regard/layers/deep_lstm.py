"""Stacks of LSTM layers with skip connections, which deep stacks need in order to learn."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend, padding_mask
from regard.attention.score_functions import AdditiveScore, ScoreFunction
from regard.kernels.dropout import Dropout
from regard.layers.recurrent import Hidden, RecurrentLayer, RecurrentOutput, merge_layer_states
from regard.types import AttentionHook, Site


class AttentionLstmOutput(NamedTuple):
    """The contexts and outputs of a layer at each of T positions."""

    contexts: Tensor  # (B, T, M)
    outputs: Tensor  # (B, T, D)


class AttentionLstm(nn.Module):
    """An LSTM whose last output is the query of an attention, and whose input has the context.

        a_t = Σ_s softmax_s(vᵀ tanh(W h_{t-1} + U m_s)) m_s
        h_t = LSTM([x_t; a_t], h_{t-1})

    It runs step by step, as each query depends on the step before. `units`: see `RecurrentLayer`.
    """

    def __init__(
        self,
        inputs: int,
        memory: int,
        width: int,
        alignment: int,
        *,
        score: Callable[[int, int, int], ScoreFunction] = AdditiveScore,
        units: int | None = None,
    ) -> None:
        super().__init__()
        self.score = score(width, memory, alignment)
        self.layer = RecurrentLayer("lstm", inputs + memory, width, units=units)

    def prepare(self, memory: Tensor) -> KeyValues:
        """Keys and values of `memory` (B, S, M), for all steps."""
        return KeyValues(self.score.prepare(memory)[:, None], memory[:, None])  # (B, 1, S, ·)

    def forward(
        self, x: Tensor, kv: KeyValues, real: Tensor, *, hook: AttentionHook | None
    ) -> AttentionLstmOutput:
        """All positions of a given `x` (B, T, inputs), from a state of zeros."""
        hidden = tuple(h[:, None] for h in self.layer.zero_state(x.shape[0]))  # each (B, 1, D)
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
        """The context (B, K, M) and the next state, for `x` (B, K, inputs) and `real` (B, S)."""
        query = hidden[0][:, None]  # (B, 1, K, D)
        mask = padding_mask(real)
        context = attend(self.score, query, kv, mask, site=site, hook=hook)[:, 0]  # (B, K, M)
        return context, self.layer.step(torch.cat([x, context], -1), hidden)


class ResidualStack(nn.Module):
    """Layers read from the left; each above the first adds its input to its output.

        m^k = LSTM^k([x^{k-1}; a])
        x^1 = m^1, and x^k = m^k + x^{k-1} above (Wu et al. 2016, equation 6)

    `a`, an input of all layers, is `context` wide; 0: there is none. Dropout applies to the input
    of a layer from below, not to what is added to its output.
    """

    def __init__(
        self, inputs: int, width: int, *, layers: int, context: int = 0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        widths = [inputs + context, *[width + context] * (layers - 1)]
        self.layers = _stack(*(RecurrentLayer("lstm", i, width) for i in widths))
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Tensor, hidden: Hidden | None = None, context: Tensor | None = None
    ) -> RecurrentOutput:
        """The top's x (B, T, D), of a whole sequence or a step: see `RecurrentLayer.advance`."""
        states: list[Hidden] = []
        for index, layer in enumerate(self.layers):
            inputs = self.dropout(x)
            if context is not None:
                inputs = torch.cat([inputs, context], -1)
            outputs, state = layer.advance(inputs, hidden and hidden[index :: len(self.layers)])
            states.append(state)
            x = outputs + x if index else outputs
        return RecurrentOutput(x, merge_layer_states(states))


FAST_FORWARD_DIVISOR = 4.0
"""The divisor of f, which is about four times larger than h: otherwise Adam would change its share
so much faster that attention forms late or never. The initial weights for f are larger by this
factor, so that the model is the same."""


class FastForwardLayer(RecurrentLayer):
    """An LSTM whose input is [half(f); h] of the one below: see `fast_forward`."""

    def __init__(self, width: int) -> None:
        super().__init__("lstm", 3 * width, width)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.weight_ih[:, : 2 * self.width] *= FAST_FORWARD_DIVISOR


def fast_forward(layer: RecurrentLayer, x: Tensor, h: Tensor) -> Tensor:
    """[half(f); h] (..., 3 D): the input of the layer above `layer`, whose output for `x` is `h`.

    f = W x is the share of the input in an LSTM's four gates. Passing it on is a fast-forward
    connection (Zhou et al. 2016, section 3.1): linear through all layers, without recurrence. The
    paper found half of f enough: here candidate and input gate. They are computed again, as torch's
    kernel does not return them.
    """
    input_gate, _, candidate, _ = layer.weight_ih.chunk(4)
    half = F.linear(x, torch.cat([candidate, input_gate])) / FAST_FORWARD_DIVISOR  # (..., 2 D)
    return torch.cat([half, h], -1)


class FastForwardColumn(nn.Module):
    """Fast-forward layers of alternating directions, the first from the end if `backward`."""

    def __init__(
        self, inputs: int, width: int, *, layers: int, backward: bool, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.backward = backward
        above = (FastForwardLayer(width) for _ in range(layers - 1))
        self.layers = _stack(RecurrentLayer("lstm", inputs, width), *above)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """[f; h] of the top layer, with all of f: (B, S, inputs) -> (B, S, 5 D)."""
        *lower, top = self.layers
        backward = self.backward
        for layer in lower:
            h = layer.read(x, mask, backward=backward).outputs  # (B, S, D)
            x, backward = fast_forward(layer, x, self.dropout(h)), not backward  # (B, S, 3 D)
        h = top.read(x, mask, backward=backward).outputs
        return torch.cat([F.linear(x, top.weight_ih) / FAST_FORWARD_DIVISOR, h], -1)


class FastForwardStack(nn.Module):
    """Layers read from the left, with fast-forward connections between them and from below."""

    def __init__(self, width: int, *, layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = _stack(*(FastForwardLayer(width) for _ in range(layers)))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, hidden: Hidden | None = None) -> RecurrentOutput:
        """The top's h (B, T, D) for `x` (B, T, 3 D), of a whole sequence or a step."""
        states: list[Hidden] = []
        for index, layer in enumerate(self.layers):
            h, state = layer.advance(x, hidden and hidden[index :: len(self.layers)])
            states.append(state)
            if index + 1 < len(self.layers):
                x = fast_forward(layer, x, self.dropout(h))
        return RecurrentOutput(h, merge_layer_states(states))


def _stack(*layers: RecurrentLayer) -> Sequence[RecurrentLayer]:
    return cast(Sequence[RecurrentLayer], nn.ModuleList(layers))
