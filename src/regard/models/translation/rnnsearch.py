"""RNNsearch: the decoder that learned to align (Bahdanau, Cho and Bengio 2015)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.attention.attend import KeyValues, attend, padding_mask
from regard.attention.score_functions import AdditiveScore
from regard.kernels.dropout import Dropout
from regard.layers.embeddings import build_embedding
from regard.layers.initialization import xavier_linears
from regard.layers.recurrent import RecurrentDecoder, RecurrentEncoder
from regard.models.contracts import Generator
from regard.models.translation.recurrent_state import AttentionDecoderState
from regard.models.translation.token_rows import TOKEN_ROWS
from regard.settings import Settings, Width
from regard.types import AttentionHook, Features, Memory, Padded, Site


class RnnSearchSettings(Settings):
    """RNNsearch; the paper's sizes are width 1000, embedding 620, alignment 1000, readout 500."""

    family: Literal["rnnsearch"] = "rnnsearch"
    """The model family."""
    width: Width = 256
    """Units of the decoder, and of each direction of the encoder."""
    embedding: Width = 256
    """Width of the token vectors."""
    alignment: Width = 256
    """Width inside the score function."""
    readout: Width = 256
    """Width of the maxout layer before the output."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on token vectors and before the output layer (the paper has none)."""


class RnnSearch(Generator[Padded, Memory, AttentionDecoderState]):
    """The decoder's last state is the query; the context is an input of its next state.

    Appendix A.2, with h_j the annotations (both directions side by side):

        s_0 = tanh(W_s ←h_1)
        c_i = Σ_j softmax_j(vᵀ tanh(W_a s_{i-1} + U_a h_j)) h_j
        s_i = GRU(E y_{i-1}, c_i; s_{i-1})
        t_i = maxout(U_o s_{i-1} + V_o E y_{i-1} + C_o c_i)
        p(y_i) = softmax(W_o t_i)

    So p(y_i) is computed from the state *before* the step. For the GRU see `RecurrentLayer`.
    """

    static_state = True

    def __init__(self, settings: RnnSearchSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        width, embedding = settings.width, settings.embedding
        self.dropout = Dropout(settings.dropout)
        self.source = build_embedding(source_size, embedding)
        self.encoder = RecurrentEncoder("gru", embedding, 2 * width, reading="both")
        self.target = build_embedding(target_size, embedding)
        self.initial = nn.Linear(width, width)  # W_s
        self.score = AdditiveScore(width, 2 * width, settings.alignment)
        self.decoder = RecurrentDecoder("gru", embedding + 2 * width, width)
        self.readout = nn.Linear(width + embedding + 2 * width, 2 * settings.readout)
        self.output = nn.Linear(settings.readout, target_size)
        xavier_linears(self)

    def named_rows(self) -> Mapping[str, str]:
        return TOKEN_ROWS

    def encode(self, source: Padded, *, hook: AttentionHook | None = None) -> Memory:
        read = self.encoder(self.dropout(self.source(source.ids)), source.mask)
        backward = read.hidden[0].chunk(2, dim=-1)[1]  # (B, D), ←h_1
        return Memory(read.outputs, source.mask, (torch.tanh(self.initial(backward)),))

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> Features:
        embedded = self.dropout(self.target(target.ids))  # (B, T, E)
        state = self.start(memory)
        before, contexts = [], []
        for column in torch.split(embedded, 1, dim=1):  # (B, 1, E)
            before.append(state.hidden_states[0])
            context, state = self._attend(column, state, hook)
            contexts.append(context)
        return Features(self._read_out(torch.cat(before, 1), embedded, torch.cat(contexts, 1)))

    def start(self, memory: Memory) -> AttentionDecoderState:
        keys = self.score.prepare(memory.states)  # (B, S, A)
        return AttentionDecoderState(
            hidden_states=(memory.extras[0][:, None],),  # (B, 1, D)
            memory=KeyValues(keys[:, None], memory.states[:, None]),  # (B, 1, S, ·)
            real=memory.mask,
        )

    def step(
        self, tokens: Tensor, state: AttentionDecoderState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, AttentionDecoderState]:
        embedded = self.dropout(self.target(tokens))  # (B, K, E)
        context, after = self._attend(embedded, state, hook)
        features = self._read_out(state.hidden_states[0], embedded, context)  # (B, K, D)
        return self.logits(features), after

    def _attend(
        self, embedded: Tensor, state: AttentionDecoderState, hook: AttentionHook | None
    ) -> tuple[Tensor, AttentionDecoderState]:
        """c_i (B, K, 2 D) and the state with s_i, for `embedded` (B, K, E), that of y_{i-1}."""
        query = state.hidden_states[0][:, None]  # (B, 1, K, D)
        mask, site = padding_mask(state.real), Site("cross", 0, state.position)
        context = attend(self.score, query, state.memory, mask, site=site, hook=hook)[:, 0]
        _, hidden = self.decoder.step(torch.cat([embedded, context], -1), state.hidden_states)
        return context, replace(state, hidden_states=hidden, position=state.position + 1)

    def _read_out(self, before: Tensor, embedded: Tensor, context: Tensor) -> Tensor:
        """t_i (B, T, D) of s_{i-1}, E y_{i-1} and c_i."""
        pairs = self.readout(torch.cat([before, embedded, context], -1))  # (B, T, 2 D)
        features: Tensor = self.dropout(torch.unflatten(pairs, -1, (-1, 2)).amax(-1))  # maxout
        return features
