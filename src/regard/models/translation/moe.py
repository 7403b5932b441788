"""Experts between LSTM layers (Shazeer et al. 2017, arXiv 1701.06538, section 5.3, appendix E)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.attention.scores import TanhProductScore
from regard.kernels.dropout import Dropout
from regard.layers.deep_lstm import AttentionLstm
from regard.layers.embeddings import build_embedding
from regard.layers.experts import Experts, ExpertsSettings
from regard.layers.init import xavier_linears
from regard.layers.recurrent import (
    Hidden,
    RecurrentEncoder,
    RecurrentLayer,
    check_reading,
    merge_layer_states,
)
from regard.models.contracts import Model
from regard.models.translation.recurrent_state import AttentionDecoderState, initial_state
from regard.settings import Settings, Width
from regard.types import AttentionHook, DecoderOutput, Memory, Padded, Routing, Site


class MoeSettings(Settings):
    """Experts between LSTM layers; the paper's width is 512, with 2048 units."""

    family: Literal["moe"] = "moe"
    """Which model this is."""
    encoder_layers: int = Field(default=3, ge=2, le=1_000)
    """LSTM layers that read the source, the bottom one both ways; experts are below the top one."""
    decoder_layers: int = Field(default=2, ge=2, le=1_000)
    """LSTM layers that write the target; experts are above the bottom one, which attends."""
    width: Width = 256
    """Width of all vectors between layers, token vectors too; both directions have half each."""
    units: Width | None = None
    """Units inside each LSTM, projected to the width; if not given, as many, and not projected."""
    alignment: Width = 256
    """Width inside the score function."""
    expert_width: Width = 512
    """Width inside each expert."""
    experts: ExpertsSettings = ExpertsSettings()
    """Of both layers of experts."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """On token vectors, and behind each LSTM layer and each layer of experts."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_reading("both", self.width, self.units)
        return self


class Moe(Model[AttentionDecoderState]):
    """A short GNMT, with a layer of experts in the encoder and one in the decoder.

    There is a way past each layer but the embedding, and dropout behind it; with x⁰ the token
    vectors, L layers and M the `Experts`:

        encoder   x¹ = x⁰ + [→LSTM(x⁰); ←LSTM(x⁰)],   x^k = x^{k-1} + LSTM(x^{k-1})
                  below the top: x + sigmoid(M(x))
        decoder   a_t = Σ_s softmax_s(Σ_d v_d tanh(W h_{t-1})_d tanh(U x^L_s)_d) x^L_s
                  h_t = LSTM([x⁰_t; a_t]),   x¹_t = x⁰_t + h_t
                  above the bottom: x + sigmoid(M(x)), then x^k = x^{k-1} + LSTM(x^{k-1})
        p(y_t) = softmax(W_o x^L_t + b)

    The experts, and all layers but the decoder's bottom one, see a whole target at once.

    The paper's model for one pair of languages balances its experts strictly (appendix F) and
    has them in a hierarchy where there are many; the gate here is that of its model for many
    languages: noisy top-k over 512 experts of 8192 units, 8.7 billion parameters.
    """

    def __init__(self, settings: MoeSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        width, units = settings.width, settings.units
        self.dropout = Dropout(settings.dropout)
        self.source = build_embedding(source_size, width)
        self.both_ways = RecurrentEncoder("lstm", width, width, reading="both", units=units)
        self.encoder = _lstm_stack(settings.encoder_layers - 1, width, units)
        self.encoder_experts = Experts(settings.experts, width, settings.expert_width)
        self.target = build_embedding(target_size, width)
        self.bottom = AttentionLstm(
            width, width, width, settings.alignment, score=TanhProductScore, units=units
        )
        self.decoder_experts = Experts(settings.experts, width, settings.expert_width)
        self.decoder = _lstm_stack(settings.decoder_layers - 1, width, units)
        self.output = nn.Linear(width, target_size)
        xavier_linears(self)

    def encode(self, source: Padded, *, hook: AttentionHook | None = None) -> Memory:
        x = self.dropout(self.source(source.ids))  # (B, S, D)
        x = x + self.dropout(self.both_ways(x, source.mask).outputs)
        *lower, top = self.encoder
        x = self._run_layers(lower, x)
        site = Site("encoder", len(lower))
        x, routings = self._apply_experts(self.encoder_experts, x, source.mask, site)
        return Memory(self._run_layers([top], x), source.mask, routings=routings)

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> DecoderOutput:
        x = self.dropout(self.target(target.ids))  # (B, T, D)
        kv = self.bottom.prepare(memory.states)
        x = x + self.dropout(self.bottom(x, kv, memory.mask, hook=hook).outputs)
        x, routings = self._apply_experts(self.decoder_experts, x, target.mask, Site("decoder", 0))
        return DecoderOutput(self._run_layers(self.decoder, x), routings)

    def logits(self, features: Tensor) -> Tensor:
        logits: Tensor = self.output(features)
        return logits

    def start(self, memory: Memory) -> AttentionDecoderState:
        return initial_state(self.bottom, self.decoder, memory)

    def step(
        self, tokens: Tensor, state: AttentionDecoderState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, AttentionDecoderState]:
        x, site = self.dropout(self.target(tokens)), Site("cross", 0, state.position)  # (B, K, D)
        _, hidden = self.bottom.step(
            x, state.hidden_states[:2], state.memory, state.real, site=site, hook=hook
        )
        x = x + self.dropout(hidden[0])
        x, _ = self._apply_experts(
            self.decoder_experts, x, None, Site("decoder", 0, state.position)
        )
        above, states = state.hidden_states[2:], list[Hidden]()
        for number, layer in enumerate(self.decoder):
            states.append(layer.step(x, above[number :: len(self.decoder)]))
            x = x + self.dropout(states[-1][0])
        state = replace(
            state, hidden_states=(*hidden, *merge_layer_states(states)), position=state.position + 1
        )
        return self.logits(x), state

    def _run_layers(self, layers: Sequence[RecurrentLayer], x: Tensor) -> Tensor:
        """`x` (B, T, D) after layers that read from the left, and so know nothing of padding."""
        for layer in layers:
            x = x + self.dropout(layer(x, layer.zero_state(len(x))).outputs)
        return x

    def _apply_experts(
        self, experts: Experts, x: Tensor, mask: Tensor | None, site: Site
    ) -> tuple[Tensor, tuple[Routing, ...]]:
        mixed, routings = experts(x, mask, site=site)
        return x + self.dropout(torch.sigmoid(mixed)), routings


def _lstm_stack(layers: int, width: int, units: int | None) -> Sequence[RecurrentLayer]:
    stack = nn.ModuleList(RecurrentLayer("lstm", width, width, units=units) for _ in range(layers))
    return cast(Sequence[RecurrentLayer], stack)
