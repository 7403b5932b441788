"""Deep-Att: a deep LSTM with fast-forward connections (Zhou et al. 2016, arXiv 1606.04199)."""

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.kernels.dropout import Dropout
from regard.layers.deep_lstm import AttentionLstm, FastForwardColumn, FastForwardStack, fast_forward
from regard.layers.embeddings import build_embedding
from regard.layers.init import init_output_layer, xavier_linears
from regard.models.contracts import Model
from regard.models.translation.recurrent_state import AttentionDecoderState, initial_state
from regard.settings import NumLayers, Settings, Width
from regard.types import AttentionHook, DecoderOutput, Memory, Padded, Site


class DeepAttSettings(Settings):
    """Deep-Att; the paper's sizes: 9 and 7 layers, width 512, embedding 256, memory 1280."""

    family: Literal["deep-att"] = "deep-att"
    """Which model this is."""
    encoder_layers: NumLayers = 4
    """Layers of each of the two columns that read the source."""
    decoder_layers: int = Field(default=4, ge=2, le=1_000)
    """Layers that write the target; the bottom one attends."""
    width: Width = 256
    """Units of each layer."""
    embedding: Width = 256
    """Width of the token vectors."""
    memory: Width = 256
    """Width of what is kept of each source word, out of ten times `width` that are read."""
    alignment: Width = 256
    """Width inside the score function."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """On token vectors, on h between layers and before the output layer (the paper's: 0.1)."""


class DeepAtt(Model[AttentionDecoderState]):
    """Deep stacks in which a linear way leads past every recurrence.

    An LSTM layer in two parts: f, made of its input alone, and h, made of f and of the past
    (k counts the layers from the bottom; half takes two of the four gates in f):

        f^1_t = W^1 x_t,   f^k_t = W^k [half(f^{k-1}_t); h^{k-1}_t]
        h^k_t = LSTM^k(f^k_t, h^k_{t∓1})

    The encoder is two such columns i = 1, 2 that share nothing but the words. Each reads to and
    fro by turns, the one beginning from the left, the other from the right. Their tops are put
    together and compressed:

        m_s = W_p [f^{top,1}_s; h^{top,1}_s; f^{top,2}_s; h^{top,2}_s]

    The decoder is one column from the left, whose bottom layer asks with its last output:

        a_t = Σ_s softmax_s(vᵀ tanh(W h^1_{t-1} + U m_s)) m_s,   x_t = [E y_{t-1}; a_t]
        p(y_t) = softmax(W_o h^top_t + b)

    Under teacher forcing only the decoder's bottom layer goes step by step: then f^1 and h^1 are
    known at all positions, and each layer above runs over the whole target in one call, as the
    encoder's do.

    Not the paper's: its LSTM has peepholes, which torch's kernels lack; its y_0 is zero, ours a
    learned vector; which gates make the half is ours to say; and f is handed on divided by a
    constant, for the sake of the optimizer (`SHRINK`).
    """

    static_state = True

    def __init__(self, settings: DeepAttSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        width, embedding, dropout = settings.width, settings.embedding, settings.dropout
        self.dropout = Dropout(dropout)
        self.source = build_embedding(source_size, embedding)
        self.columns = nn.ModuleList(
            FastForwardColumn(
                embedding,
                width,
                layers=settings.encoder_layers,
                backward=backward,
                dropout=dropout,
            )
            for backward in (False, True)
        )
        self.compress = nn.Linear(10 * width, settings.memory, bias=False)  # W_p
        self.target = build_embedding(target_size, embedding)
        self.bottom = AttentionLstm(embedding, settings.memory, width, settings.alignment)
        self.decoder = FastForwardStack(width, layers=settings.decoder_layers - 1, dropout=dropout)
        self.output = nn.Linear(width, target_size)
        xavier_linears(self)
        init_output_layer(self.output)

    def encode(self, source: Padded, *, hook: AttentionHook | None = None) -> Memory:
        x = self.dropout(self.source(source.ids))  # (B, S, E)
        read = [column(x, source.mask) for column in self.columns]  # each (B, S, 5 D)
        return Memory(self.compress(torch.cat(read, -1)), source.mask)

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> DecoderOutput:
        x = self.dropout(self.target(target.ids))  # (B, T, E)
        kv = self.bottom.prepare(memory.states)
        contexts, outputs = self.bottom(x, kv, memory.mask, hook=hook)  # (B, T, ·)
        features = self.decoder(self._above_bottom(x, contexts, outputs))  # (B, T, D)
        return DecoderOutput(self.dropout(features))

    def logits(self, features: Tensor) -> Tensor:
        logits: Tensor = self.output(features)
        return logits

    def start(self, memory: Memory) -> AttentionDecoderState:
        return initial_state(self.bottom, self.decoder.layers, memory)

    def step(
        self, tokens: Tensor, state: AttentionDecoderState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, AttentionDecoderState]:
        x = self.dropout(self.target(tokens))  # (B, K, E)
        context, bottom = self.bottom.step(
            x,
            state.hidden_states[:2],
            state.memory,
            state.real,
            site=Site("cross", 0, state.position),
            hook=hook,
        )
        above = self._above_bottom(x, context, bottom[0])
        features, hidden_states = self.decoder.step(above, state.hidden_states[2:])  # (B, K, D)
        state = replace(state, hidden_states=(*bottom, *hidden_states), position=state.position + 1)
        return self.logits(self.dropout(features)), state

    def _above_bottom(self, x: Tensor, contexts: Tensor, outputs: Tensor) -> Tensor:
        """[half(f^1); h^1] (B, T, 3 D)."""
        given = torch.cat([x, contexts], -1)
        return fast_forward(self.bottom.layer, given, self.dropout(outputs))
