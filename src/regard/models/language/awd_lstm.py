"""The AWD-LSTM: an LSTM language model with dropped weights and penalties (Merity et al. 2018)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeFloat
from torch import Tensor, nn

from regard.layers.recurrent import Hidden, RecurrentLayer, merge_layer_states
from regard.layers.variational_dropout import DroppedEmbedding, LockedDropout
from regard.models.contracts import CausalTextEncoder, OutputProjection, StatefulGenerator
from regard.models.translation.recurrent_state import RecurrentState
from regard.settings import NumLayers, Settings, Width
from regard.types import AttentionHook, Features, Padded, TensorFields

INITIAL_EMBEDDING = 0.1  # token vectors are drawn between plus and minus this


class AwdLstmSettings(Settings):
    """A language model of LSTM layers with weight dropout; the defaults are those for PTB."""

    family: Literal["awd-lstm"] = "awd-lstm"
    """The model family."""
    width: Width = 400
    """Width of the token vectors, which are also the weights of the output layer, and of the last
    layer."""
    units: Width = 1150
    """Units of the layers below the last."""
    layers: NumLayers = 3
    """Number of LSTM layers."""
    embedding_dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout of whole token vectors: the share of the vocabulary whose vectors are zero in a
    training batch."""
    input_dropout: float = Field(default=0.4, ge=0, lt=1)
    """Dropout on token vectors, of the same units at all positions of a row."""
    hidden_dropout: float = Field(default=0.25, ge=0, lt=1)
    """Dropout between layers, of the same units at all positions of a row."""
    output_dropout: float = Field(default=0.4, ge=0, lt=1)
    """Dropout before the output layer, of the same units at all positions of a row."""
    weight_drop: float = Field(default=0.5, ge=0, lt=1)
    """Share of the recurrent weights that are dropped in a training batch."""
    activation_penalty: NonNegativeFloat = 2.0
    """AR: weight of the penalty on the mean square of the last layer's outputs, after dropout."""
    change_penalty: NonNegativeFloat = 1.0
    """TAR: weight of the penalty on the mean square of the differences between neighbouring
    outputs."""

    @property
    def context(self) -> int | None:
        """The most tokens that are seen at once: unlimited."""
        return None


@dataclass(frozen=True)
class LstmMemory(TensorFields):
    """The LSTM states after the text so far, concatenated over all layers."""

    hidden: Tensor  # (B, ΣD)
    cells: Tensor  # (B, ΣD)


class AwdLstm(StatefulGenerator[Padded, LstmMemory, RecurrentState], CausalTextEncoder):
    """LSTM layers over token vectors; the output layer has these vectors E as its weights.

    h^l_t = LSTM^l(dropped(h^{l-1}_t), h^l_{t-1}), U^l dropped; h^0_t is the token's vector
    p(x_{t+1}) = softmax(E dropped(h^L_t) + b)
    loss = -log p(x_{t+1}) + α mean(dropped(h^L_t)²) + β mean((h^L_t - h^L_{t-1})²)
    """

    static_state = True

    def __init__(self, settings: AwdLstmSettings, vocabulary: int) -> None:
        super().__init__()
        width, layers = settings.width, settings.layers
        self.penalties = settings.activation_penalty, settings.change_penalty
        self.embedding = DroppedEmbedding(vocabulary, width, dropout=settings.embedding_dropout)
        widths = [width, *[settings.units] * (layers - 1), width]
        stack = (
            RecurrentLayer("lstm", inputs, outputs, weight_drop=settings.weight_drop, float16=True)
            for inputs, outputs in pairwise(widths)
        )
        self.layers = cast(Sequence[RecurrentLayer], nn.ModuleList(stack))
        self.input_dropout = LockedDropout(settings.input_dropout)
        self.hidden_dropout = LockedDropout(settings.hidden_dropout)
        self.output_dropout = LockedDropout(settings.output_dropout)
        self.output_bias = nn.Parameter(torch.empty(vocabulary))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Uniform weights, in the paper's ranges."""
        nn.init.uniform_(self.embedding.weight, -INITIAL_EMBEDDING, INITIAL_EMBEDDING)
        nn.init.zeros_(self.output_bias)
        for layer in self.layers:
            for weight in layer.parameters():
                nn.init.uniform_(weight, -(layer.width**-0.5), layer.width**-0.5)

    def layer_groups(self) -> Sequence[Sequence[nn.Module]]:
        """Token vectors, then each layer."""
        return [[self.embedding], *([layer] for layer in self.layers)]

    def named_rows(self) -> Mapping[str, str]:
        return {"embedding.weight": "tokens", "output_bias": "tokens"}

    def blank_memory(self, rows: int) -> LstmMemory:
        """The memory before any text."""
        width = sum(layer.width for layer in self.layers)
        return LstmMemory(*(self.output_bias.new_zeros(rows, width) for _ in range(2)))

    def encode(self, inputs: Padded, *, hook: AttentionHook | None = None) -> LstmMemory:
        """The memory after a prompt (B, S), which may be empty in some rows or in all."""
        if inputs.ids.shape[1] == 0:
            return self.blank_memory(inputs.ids.shape[0])
        x, states = self._embed(inputs.ids), list[Hidden]()
        for number, layer in enumerate(self.layers):
            x, hidden = layer.read(self.hidden_dropout(x) if number else x, inputs.mask)
            states.append(hidden)
        blank = ~inputs.mask.any(1, keepdim=True)  # (B, 1)
        merged = self._merge(states)
        return LstmMemory(*(x.masked_fill(blank, 0.0) for x in (merged.hidden, merged.cells)))

    def decode(
        self, given: Padded, memory: LstmMemory, *, hook: AttentionHook | None = None
    ) -> Features:
        return self.read_on(given, memory)[0]

    def read_on(self, given: Padded, memory: LstmMemory) -> tuple[Features, LstmMemory]:
        x, states = self._embed(given.ids), list[Hidden]()  # (B, T, D)
        for number, (layer, hidden) in enumerate(
            zip(self.layers, self._split(memory), strict=True)
        ):
            x, after = layer(self.hidden_dropout(x) if number else x, hidden)
            states.append(after)
        dropped = self.output_dropout(x)
        return Features(dropped, penalty=self._penalty(x, dropped)), self._merge(states)

    @property
    def state_width(self) -> int:
        return self.layers[-1].width

    def token_states(self, inputs: Padded, *, hook: AttentionHook | None = None) -> Tensor:
        """The input of `logits`; padding is on the right, so that no token sees it."""
        return self.read_on(inputs, self.blank_memory(inputs.ids.shape[0]))[0].features

    def logits(self, features: Tensor) -> Tensor:
        return F.linear(features, *self.output_layer())

    def output_layer(self) -> OutputProjection:
        return OutputProjection(self.embedding.weight, self.output_bias)

    def start(self, memory: LstmMemory) -> RecurrentState:
        states = [tuple(h[:, None] for h in hidden) for hidden in self._split(memory)]
        return RecurrentState(merge_layer_states(states))  # each (B, 1, D)

    def step(
        self, tokens: Tensor, state: RecurrentState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, RecurrentState]:
        x, states = self._embed(tokens), list[Hidden]()  # (B, K, D)
        for number, layer in enumerate(self.layers):
            x = self.hidden_dropout(x) if number else x
            states.append(layer.step(x, state.hidden_states[number :: len(self.layers)]))
            x = states[-1][0]
        merged = RecurrentState(merge_layer_states(states))
        return self.logits(self.output_dropout(x)), merged

    def _embed(self, ids: Tensor) -> Tensor:
        return self.input_dropout(self.embedding(ids))

    def _penalty(self, outputs: Tensor, dropped: Tensor) -> Tensor | None:
        """The penalties AR and TAR of the last layer's outputs (B, T, D), in training."""
        activation, change = self.penalties
        if not self.training or not (activation or change):
            return None
        penalty = activation * dropped.square().mean()
        if change and outputs.shape[1] > 1:
            steps = outputs[:, 1:] - outputs[:, :-1]  # (B, T - 1, D)
            penalty = penalty + change * steps.square().mean()
        return penalty

    def _split(self, memory: LstmMemory) -> list[Hidden]:
        """h and c of each layer, (B, D) each."""
        widths = [layer.width for layer in self.layers]
        kinds = (torch.split(x, widths, -1) for x in (memory.hidden, memory.cells))
        return list(zip(*kinds, strict=True))

    def _merge(self, states: Sequence[Hidden]) -> LstmMemory:
        hidden, cells = zip(*states, strict=True)
        return LstmMemory(torch.cat(hidden, -1), torch.cat(cells, -1))
