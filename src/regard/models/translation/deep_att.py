"""Deep-Att: a deep LSTM with fast-forward connections (Zhou et al. 2016, arXiv 1606.04199)."""

from collections.abc import Iterable
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.kernels.dropout import Dropout
from regard.layers.deep_lstm import AttentionLstm, FastForwardColumn, FastForwardStack, fast_forward
from regard.layers.embeddings import build_embedding
from regard.layers.initialization import init_output_layer, xavier_linears
from regard.layers.recurrent import RecurrentLayer
from regard.models.translation.deep_lstm_model import BottomOutput, DeepLstmModel, UpperOutput
from regard.models.translation.recurrent_state import AttentionDecoderState
from regard.settings import NumLayers, Settings, Width
from regard.types import AttentionHook, Memory, Padded


class DeepAttSettings(Settings):
    """Deep-Att; the paper's sizes: 9 and 7 layers, width 512, embedding 256, memory 1280."""

    family: Literal["deep-att"] = "deep-att"
    """The model family."""
    encoder_layers: NumLayers = 4
    """Number of layers in each of the two columns of the encoder."""
    decoder_layers: int = Field(default=4, ge=2, le=1_000)
    """Number of layers in the decoder; the bottom one attends."""
    width: Width = 256
    """Units of each layer."""
    embedding: Width = 256
    """Width of the token vectors."""
    memory: Width = 256
    """Width to which the encoder's ten times `width` outputs for each source word are
    compressed."""
    alignment: Width = 256
    """Width inside the score function."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on token vectors, on h between layers and before the output layer (the paper's:
    0.1)."""


class DeepAtt(DeepLstmModel):
    """Deep LSTM stacks with a linear connection past every recurrence.

    An LSTM layer in two parts: f, of its input alone, and h, of f and of the past (k counts the
    layers from the bottom; half takes two of the four gates in f):

        f^1_t = W^1 x_t,   f^k_t = W^k [half(f^{k-1}_t); h^{k-1}_t]
        h^k_t = LSTM^k(f^k_t, h^k_{t∓1})

    The encoder is two such columns, whose layers read in either direction by turns: the first of
    one column from the left, of the other from the right. Their tops are compressed:

        m_s = W_p [f^{top,1}_s; h^{top,1}_s; f^{top,2}_s; h^{top,2}_s]

    The decoder is one column from the left; the query is the last output of its bottom layer:

        a_t = Σ_s softmax_s(vᵀ tanh(W h^1_{t-1} + U m_s)) m_s,   x_t = [E y_{t-1}; a_t]
        p(y_t) = softmax(W_o h^top_t + b)

    Unlike in the paper, the LSTM has no peepholes, which torch's kernels lack, y_0 is a learned
    vector, not zero, and f is divided by `FAST_FORWARD_DIVISOR` on its way up.
    """

    static_state = True

    def __init__(self, settings: DeepAttSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        width, embedding, dropout = settings.width, settings.embedding, settings.dropout
        self.dropout = Dropout(dropout)
        self.source = build_embedding(source_size, embedding)
        self.columns = nn.ModuleList(
            FastForwardColumn(
                embedding, width, layers=settings.encoder_layers, backward=backward, dropout=dropout
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

    def upper_layers(self) -> Iterable[RecurrentLayer]:
        return self.decoder.layers

    def run_upper(
        self, bottom: BottomOutput, mask: Tensor | None, state: AttentionDecoderState | None
    ) -> UpperOutput:
        """[half(f^1); h^1] is (B, T, 3 D)."""
        given = torch.cat([bottom.embedded, bottom.contexts], -1)
        above = fast_forward(self.bottom.layer, given, self.dropout(bottom.outputs))
        features, hidden = self.decoder(above, state and state.hidden_states[2:])
        return UpperOutput(self.dropout(features), hidden)
