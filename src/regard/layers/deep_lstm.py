"""Stacks of LSTM layers with a way past each layer, without which deep ones do not learn."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend, padding_mask
from regard.attention.scores import AdditiveScore, ScoreFunction
from regard.kernels.dropout import Dropout
from regard.layers.recurrent import Hidden, RecurrentLayer, RecurrentOutput, merge_layer_states
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
        score: Callable[[int, int, int], ScoreFunction] = AdditiveScore,
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


class ResidualStack(nn.Module):
    """Layers read from the left; each above the first adds its input to what it makes of it.

        m^k = LSTM^k([x^{k-1}; a])
        x^1 = m^1, and x^k = m^k + x^{k-1} above (Wu et al. 2016, equation 6)

    `a`, which all layers are given beside, is of width `beside`; 0: there is none. Dropout falls on
    what goes into a layer from below, not on what goes past it.
    """

    def __init__(
        self, inputs: int, width: int, *, layers: int, context: int = 0, dropout: float = 0.0
    ) -> None:
        super().__init__()
        widths = [inputs + context, *[width + context] * (layers - 1)]
        self.layers = _stack(*(RecurrentLayer("lstm", i, width) for i in widths))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, context: Tensor | None = None) -> Tensor:
        """The top's x at each position of `x`, from a blank state: (B, T, ·) -> (B, T, D)."""
        for index, layer in enumerate(self.layers):
            made = layer(
                self._layer_input(x, context), layer.zero_state(len(x))
            ).outputs  # (B, T, D)
            x = made + x if index else made
        return x

    def step(self, x: Tensor, hidden: Hidden, context: Tensor | None = None) -> RecurrentOutput:
        """The top's x (B, K, D) for one more `x` (B, K, inputs), and the state after it."""
        states: list[Hidden] = []
        for index, layer in enumerate(self.layers):
            states.append(
                layer.step(self._layer_input(x, context), hidden[index :: len(self.layers)])
            )
            x = states[-1][0] + x if index else states[-1][0]
        return RecurrentOutput(x, merge_layer_states(states))

    def _layer_input(self, x: Tensor, context: Tensor | None) -> Tensor:
        """What a layer is given where `x` comes from below."""
        x = self.dropout(x)
        return x if context is None else torch.cat([x, context], -1)


FAST_FORWARD_DIVISOR = 4.0
"""By which f, some four or five times larger than h, is divided on its way up.

An optimizer like Adam moves all weights by steps of one size, and so what reads f several times as
fast as what reads h: attention then forms late or never. The weights that read f are drawn as many
times wider, so that f keeps its size from layer to layer. It is the paper's model, which might as
well have learned these weights; only the way there is another.
"""


class FastForwardLayer(RecurrentLayer):
    """An LSTM that is given [half(f); h] of the one below, as `fast_forward` makes it."""

    def __init__(self, width: int) -> None:
        super().__init__("lstm", 3 * width, width)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        with torch.no_grad():
            self.weight_ih[:, : 2 * self.width] *= FAST_FORWARD_DIVISOR


def fast_forward(layer: RecurrentLayer, x: Tensor, h: Tensor) -> Tensor:
    """[half(f); h] (..., 3 D): what the layer above is given where `layer` made `h` of `x`.

    f = W x is what an LSTM adds to its four gates before it thinks of its past. To hand it on is a
    fast-forward connection (Zhou et al. 2016, section 3.1): a way up through all layers that is
    linear and holds no recurrence. Half of f will do, as the paper found: here that of the
    candidate and of the input gate. The kernel of the whole layer keeps f to itself, so the half
    is computed once more, which costs less than to give that kernel up.
    """
    input_gate, _, candidate, _ = layer.weight_ih.chunk(4)
    half = F.linear(x, torch.cat([candidate, input_gate])) / FAST_FORWARD_DIVISOR  # (..., 2 D)
    return torch.cat([half, h], -1)


class FastForwardColumn(nn.Module):
    """Layers joined by fast-forward connections that read a padded source to and fro.

    The first reads from the end where `backward` says so, and each in the other direction than the
    one below it, so that all above the first know both sides of a word.
    """

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
    """Layers joined by fast-forward connections, to one below them too, read from the left."""

    def __init__(self, width: int, *, layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = _stack(*(FastForwardLayer(width) for _ in range(layers)))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """The top's h at each position of `x`, from a blank state: (B, T, 3 D) -> (B, T, D)."""
        *lower, top = self.layers
        for layer in lower:
            h = layer(x, layer.zero_state(len(x))).outputs  # (B, T, D)
            x = fast_forward(layer, x, self.dropout(h))  # (B, T, 3 D)
        outputs: Tensor = top(x, top.zero_state(len(x))).outputs
        return outputs

    def step(self, x: Tensor, hidden: Hidden) -> RecurrentOutput:
        """The top's h (B, K, D) for one more `x` (B, K, 3 D), and the state after it."""
        states: list[Hidden] = []
        for index, layer in enumerate(self.layers):
            if index:
                x = fast_forward(self.layers[index - 1], x, self.dropout(states[-1][0]))
            states.append(layer.step(x, hidden[index :: len(self.layers)]))
        return RecurrentOutput(states[-1][0], merge_layer_states(states))


def _stack(*layers: RecurrentLayer) -> Sequence[RecurrentLayer]:
    return cast(Sequence[RecurrentLayer], nn.ModuleList(layers))
