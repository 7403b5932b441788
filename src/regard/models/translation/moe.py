"""Experts between LSTM layers (Shazeer et al. 2017, arXiv 1701.06538, section 5.3, appendix E)."""

from collections.abc import Iterable, Sequence
from typing import Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.attention.score_functions import TanhProductScore
from regard.kernels.dropout import Dropout
from regard.layers.deep_lstm import AttentionLstm
from regard.layers.embeddings import build_embedding
from regard.layers.experts import Experts, ExpertsSettings
from regard.layers.initialization import xavier_linears
from regard.layers.recurrent import (
    Hidden,
    RecurrentEncoder,
    RecurrentLayer,
    RecurrentOutput,
    check_reading,
    merge_layer_states,
)
from regard.models.translation.deep_lstm_model import BottomOutput, DeepLstmModel, UpperOutput
from regard.models.translation.recurrent_state import AttentionDecoderState
from regard.settings import Settings, Width
from regard.types import AttentionHook, Memory, Padded, Routing, Site


class MoeSettings(Settings):
    """Experts between LSTM layers; the paper's width is 512, with 2048 units."""

    family: Literal["moe"] = "moe"
    """The model family."""
    encoder_layers: int = Field(default=3, ge=2, le=1_000)
    """Number of LSTM layers in the encoder, the bottom one bidirectional; experts are below the top
    one."""
    decoder_layers: int = Field(default=2, ge=2, le=1_000)
    """Number of LSTM layers in the decoder; experts are above the bottom one, which attends."""
    width: Width = 256
    """Width of all vectors between layers, including token vectors; each direction has half."""
    units: Width | None = None
    """Units of each LSTM, projected to `width`; if not given, `width` units without projection."""
    alignment: Width = 256
    """Width inside the score function."""
    expert_width: Width = 512
    """Width inside each expert."""
    experts: ExpertsSettings = ExpertsSettings()
    """The settings of both layers of experts."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on token vectors, and after each LSTM layer and each layer of experts."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_reading("both", self.width, self.units)
        return self


class Moe(DeepLstmModel):
    """A short GNMT, with a layer of experts in the encoder and one in the decoder.

    Each layer but the embedding has dropout and a residual connection; with x⁰ the token vectors,
    L layers and M the `Experts`:

        encoder   x¹ = x⁰ + [→LSTM(x⁰); ←LSTM(x⁰)],   x^k = x^{k-1} + LSTM(x^{k-1})
                  below the top: x + sigmoid(M(x))
        decoder   a_t = Σ_s softmax_s(Σ_d v_d tanh(W h_{t-1})_d tanh(U x^L_s)_d) x^L_s
                  h_t = LSTM([x⁰_t; a_t]),   x¹_t = x⁰_t + h_t
                  above the bottom: x + sigmoid(M(x)), then x^k = x^{k-1} + LSTM(x^{k-1})
        p(y_t) = softmax(W_o x^L_t + b)

    The paper's models for one pair of languages balance their experts strictly (appendix F), and
    the large ones have a hierarchy of experts; the gate here is that of its model for many
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
        x = self._run_layers(lower, x).outputs
        site = Site("encoder", len(lower))
        x, routings = self._apply_experts(self.encoder_experts, x, source.mask, site)
        x = self._run_layers([top], x).outputs
        return Memory(x, source.mask, routings=routings)

    def upper_layers(self) -> Iterable[RecurrentLayer]:
        return self.decoder

    def run_upper(
        self, bottom: BottomOutput, mask: Tensor | None, state: AttentionDecoderState | None
    ) -> UpperOutput:
        x = bottom.embedded + self.dropout(bottom.outputs)
        site = Site("decoder", 0, None if state is None else state.position)
        x, routings = self._apply_experts(self.decoder_experts, x, mask, site)
        hidden = None if state is None else state.hidden_states[2:]
        x, hidden = self._run_layers(self.decoder, x, hidden)
        return UpperOutput(x, hidden, routings)

    def _run_layers(
        self, layers: Sequence[RecurrentLayer], x: Tensor, hidden: Hidden | None = None
    ) -> RecurrentOutput:
        """Layers that read from the left: padding on the right of `x` (B, T, D) has no effect."""
        states: list[Hidden] = []
        for index, layer in enumerate(layers):
            outputs, state = layer.advance(x, hidden and hidden[index :: len(layers)])
            states.append(state)
            x = x + self.dropout(outputs)
        return RecurrentOutput(x, merge_layer_states(states))

    def _apply_experts(
        self, experts: Experts, x: Tensor, mask: Tensor | None, site: Site
    ) -> tuple[Tensor, tuple[Routing, ...]]:
        mixed, routings = experts(x, mask, site=site)
        return x + self.dropout(torch.sigmoid(mixed)), routings


def _lstm_stack(layers: int, width: int, units: int | None) -> Sequence[RecurrentLayer]:
    stack = nn.ModuleList(RecurrentLayer("lstm", width, width, units=units) for _ in range(layers))
    return cast(Sequence[RecurrentLayer], stack)
