"""Attention above a stacked LSTM (Luong, Pham and Manning 2015)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend
from regard.attention.local_attention import WindowName, build_window
from regard.attention.score_functions import ScoreName, build_score
from regard.kernels.dropout import Dropout
from regard.layers.embeddings import build_embedding
from regard.layers.initialization import xavier_linears
from regard.layers.recurrent import Reading, RecurrentDecoder, RecurrentEncoder, check_reading
from regard.models.contracts import Generator
from regard.models.translation.recurrent_state import AttentionDecoderState
from regard.models.translation.token_rows import TOKEN_ROWS
from regard.settings import NumLayers, NumPositions, Settings, Width
from regard.types import AttentionHook, Features, Memory, Padded, Site

PAPER_SCORES: dict[str, ScoreName] = {
    "dot": "dot",
    "general": "multiplicative",
    "concat": "additive",
}
"""Our names of the paper's score functions."""


class LuongSettings(Settings):
    """Luong's attention; the paper's sizes are 4 layers, width 1000, embedding 1000."""

    family: Literal["luong"] = "luong"
    """The model family."""
    layers: NumLayers = 2
    """Number of recurrent layers in the encoder, and in the decoder."""
    width: Width = 256
    """Units of each layer; of both directions together in a bidirectional encoder."""
    embedding: Width = 256
    """Width of the token vectors."""
    reading: Reading = "forward"
    """How the source is read; the paper reads it backward."""
    score: Literal["dot", "general", "concat"] = "general"
    """The score function between a decoder state and a source state."""
    attention: WindowName = "global"
    """Whether a step attends to the whole source, to a window at its own position, or to one at a
    position that it predicts."""
    reach: NumPositions | None = None
    """Words to either side of the centre of a window, the paper's D; 10 if not given."""
    input_feeding: bool = True
    """Input feeding: whether each step gets the last step's attentional state as an input."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on token vectors, between layers and before the output layer."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        """Fill in defaults that depend on other fields."""
        local = isinstance(given, dict) and given.get("attention", "global") != "global"
        return {**given, "reach": 10} if local and given.get("reach") is None else given

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_reading(self.reading, self.width)
        if self.attention == "global" and self.reach is not None:
            raise ValueError(
                f"reach {self.reach} has no effect on global attention, which has no window; "
                "leave it out or set attention to 'local-m' or 'local-p'"
            )
        return self


class Luong(Generator[Padded, Memory, AttentionDecoderState]):
    """A decoder whose new state is the query; its output is computed from state and context.

        h_t = LSTM([E y_{t-1}; s̃_{t-1}], h_{t-1})      without input feeding: E y_{t-1} alone
        c_t = Σ_s a_t(s) h̄_s
        s̃_t = tanh(W_c [c_t; h_t])
        p(y_t) = softmax(W_s s̃_t)

    Without input feeding, teacher forcing computes all positions at once.
    """

    def __init__(self, settings: LuongSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        width, embedding = settings.width, settings.embedding
        layers, dropout = settings.layers, settings.dropout
        self.width, self.input_feeding = width, settings.input_feeding
        self.dropout = Dropout(dropout)
        self.source = build_embedding(source_size, embedding)
        self.encoder = RecurrentEncoder(
            "lstm", embedding, width, layers=layers, reading=settings.reading, dropout=dropout
        )
        self.target = build_embedding(target_size, embedding)
        inputs = embedding + (width if settings.input_feeding else 0)
        self.decoder = RecurrentDecoder("lstm", inputs, width, layers=layers, dropout=dropout)
        self.score = build_score(PAPER_SCORES[settings.score], width, width, hidden=width)
        self.window = build_window(settings.attention, width, settings.reach or 0)
        self.combine = nn.Linear(2 * width, width, bias=False)  # W_c
        self.output = nn.Linear(width, target_size)
        xavier_linears(self)

    def named_rows(self) -> Mapping[str, str]:
        return TOKEN_ROWS

    def encode(self, source: Padded, *, hook: AttentionHook | None = None) -> Memory:
        read = self.encoder(self.dropout(self.source(source.ids)), source.mask)
        return Memory(read.outputs, source.mask, read.hidden)

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> Features:
        x, state = self.dropout(self.target(target.ids)), self.start(memory)  # (B, T, E)
        if not self.input_feeding:
            hidden = self.decoder(x, memory.extras)  # (B, T, D)
            positions = torch.arange(x.shape[1], device=x.device)
            features = self._attend(hidden, positions, state, Site("cross", 0), hook)  # (B, T, D)
        else:
            columns = []
            for column in torch.split(x, 1, dim=1):  # (B, 1, E)
                feature, state = self._advance(column, state, hook)
                columns.append(feature)
            features = torch.cat(columns, 1)  # (B, T, D)
        return Features(self.dropout(features))

    def start(self, memory: Memory) -> AttentionDecoderState:
        hidden_states = tuple(h[:, None] for h in memory.extras)  # each (B, 1, D)
        if self.input_feeding:
            hidden_states = (*hidden_states, torch.zeros_like(hidden_states[0]))  # s̃_0
        keys = self.score.prepare(memory.states)  # (B, S, D)
        kv = KeyValues(keys[:, None], memory.states[:, None])
        return AttentionDecoderState(hidden_states, kv, memory.mask)

    def step(
        self, tokens: Tensor, state: AttentionDecoderState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, AttentionDecoderState]:
        x = self.dropout(self.target(tokens))  # (B, K, E)
        features, state = self._advance(x, state, hook)
        return self.logits(self.dropout(features)), state

    def _advance(
        self, x: Tensor, state: AttentionDecoderState, hook: AttentionHook | None
    ) -> tuple[Tensor, AttentionDecoderState]:
        """s̃_t (B, K, D) for `x` (B, K, E), the vectors of y_{t-1}, and the state after it."""
        hidden = state.hidden_states
        if self.input_feeding:
            hidden, fed = state.hidden_states[:-1], state.hidden_states[-1]
            x = torch.cat([x, fed], -1)  # (B, K, E + D)
        top, hidden_states = self.decoder.step(x, hidden)
        position = torch.arange(state.position, state.position + 1, device=x.device)
        site = Site("cross", 0, state.position)
        features = self._attend(top, position, state, site, hook)
        if self.input_feeding:
            hidden_states = (*hidden_states, features)
        return features, replace(state, hidden_states=hidden_states, position=state.position + 1)

    def _attend(
        self,
        hidden: Tensor,
        positions: Tensor,
        state: AttentionDecoderState,
        site: Site,
        hook: AttentionHook | None,
    ) -> Tensor:
        """s̃ (B, T, D) of the decoder states `hidden` (B, T, D) at target `positions` (T,)."""
        mask, bias = self.window(hidden, positions, state.real)
        queries, kv = hidden[:, None], state.memory  # (B, 1, T, D), (B, 1, S, D)
        attended = attend(self.score, queries, kv, mask, site=site, bias=bias, hook=hook)
        context = attended[:, 0]  # (B, T, D)
        return torch.tanh(self.combine(torch.cat([context, hidden], -1)))
