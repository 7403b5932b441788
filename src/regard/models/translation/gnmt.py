"""GNMT: a deep LSTM with residual connections (Wu et al. 2016, arXiv 1609.08144)."""

from collections.abc import Iterable
from typing import Literal

from pydantic import Field
from torch import Tensor, nn

from regard.kernels.dropout import Dropout
from regard.layers.deep_lstm import AttentionLstm, ResidualStack
from regard.layers.embeddings import build_embedding
from regard.layers.initialization import init_output_layer, xavier_linears
from regard.layers.recurrent import RecurrentEncoder, RecurrentLayer
from regard.models.translation.deep_lstm_model import BottomOutput, DeepLstmModel, UpperOutput
from regard.models.translation.recurrent_state import AttentionDecoderState
from regard.settings import Settings, Width
from regard.types import AttentionHook, Memory, Padded


class GnmtSettings(Settings):
    """GNMT; the paper's sizes are 8 and 8 layers, and 1024 for each of the widths."""

    family: Literal["gnmt"] = "gnmt"
    """The model family."""
    encoder_layers: int = Field(default=4, ge=2, le=1_000)
    """Number of layers in the encoder: the bottom one is bidirectional, the others read from left
    to right."""
    decoder_layers: int = Field(default=4, ge=2, le=1_000)
    """Number of layers in the decoder; the bottom one attends."""
    width: Width = 256
    """Units of each layer, and of each direction of the encoder's bottom one."""
    embedding: Width = 256
    """Width of the token vectors."""
    alignment: Width = 256
    """Width inside the score function."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on token vectors, between layers and before the output layer."""


class Gnmt(DeepLstmModel):
    """A deep stack on each side, joined by one attention at the bottom of the decoder.

    The encoder, with k counting the layers from the bottom (sections 3.1 and 3.2):

        x^1 = [→LSTM(E x); ←LSTM(E x)],   x^2 = LSTM(x^1),   x^k = LSTM(x^{k-1}) + x^{k-1}

    The decoder, in which the query is the bottom layer's output of the step before and all layers
    have the context a_t as input (section 3, equation 4):

        a_t = Σ_s softmax_s(vᵀ tanh(W z^1_{t-1} + U x^top_s)) x^top_s
        z^1_t = LSTM([E y_{t-1}; a_t]),   z^2_t = LSTM([z^1_t; a_t])
        z^k_t = LSTM([z^{k-1}_t; a_t]) + z^{k-1}_t
        p(y_t) = softmax(W_o z^top_t + b)

    Weights are initialised as in our other recurrent models (in the paper within ±0.04), except for
    the output layer (`init_output_layer`). With the paper's sizes and two vocabularies of 32,000
    there are 280,858,880 parameters; Shazeer et al. 2017 (arXiv 1701.06538) count 278M.
    """

    static_state = True

    def __init__(self, settings: GnmtSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        width, embedding, dropout = settings.width, settings.embedding, settings.dropout
        self.dropout = Dropout(dropout)
        self.source = build_embedding(source_size, embedding)
        self.both_ways = RecurrentEncoder("lstm", embedding, 2 * width, reading="both")
        self.encoder = ResidualStack(
            2 * width, width, layers=settings.encoder_layers - 1, dropout=dropout
        )
        self.target = build_embedding(target_size, embedding)
        self.bottom = AttentionLstm(embedding, width, width, settings.alignment)
        self.decoder = ResidualStack(
            width, width, layers=settings.decoder_layers - 1, context=width, dropout=dropout
        )
        self.output = nn.Linear(width, target_size)
        xavier_linears(self)
        init_output_layer(self.output)

    def encode(self, source: Padded, *, hook: AttentionHook | None = None) -> Memory:
        read = self.both_ways(self.dropout(self.source(source.ids)), source.mask)  # (B, S, 2 D)
        # Layers that read from the left are not affected by padding on the right.
        return Memory(self.encoder(read.outputs).outputs, source.mask)

    def upper_layers(self) -> Iterable[RecurrentLayer]:
        return self.decoder.layers

    def run_upper(
        self, bottom: BottomOutput, mask: Tensor | None, state: AttentionDecoderState | None
    ) -> UpperOutput:
        features, hidden = self.decoder(
            bottom.outputs, state and state.hidden_states[2:], bottom.contexts
        )
        return UpperOutput(self.dropout(features), hidden)
