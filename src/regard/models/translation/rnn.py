"""The encoder-decoder without attention: the source is compressed into one vector."""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.kernels.dropout import Dropout
from regard.layers.embeddings import build_embedding
from regard.layers.initialization import xavier_linears
from regard.layers.recurrent import (
    CellName,
    Reading,
    RecurrentDecoder,
    RecurrentEncoder,
    check_reading,
)
from regard.models.contracts import Generator
from regard.models.translation.recurrent_state import RecurrentState
from regard.models.translation.token_rows import TOKEN_ROWS
from regard.settings import NumLayers, Settings, Width
from regard.types import AttentionHook, Features, Memory, Padded


class RnnSettings(Settings):
    """A recurrent encoder whose last state starts a recurrent decoder."""

    family: Literal["rnn"] = "rnn"
    """The model family."""
    cell: CellName = "lstm"
    """The recurrent cell (`lstm`: Sutskever et al. 2014; `gru`: Cho et al. 2014)."""
    layers: NumLayers = 1
    """Number of recurrent layers in the encoder, and in the decoder."""
    width: Width = 256
    """Units of each layer; of both directions together in a bidirectional encoder."""
    embedding: int = Field(default=256, ge=0, le=65_536)
    """Width of the token vectors; 0 means one-hot vectors, which suit small alphabets."""
    reading: Reading = "forward"
    """The direction in which the source is read; `backward` puts its beginning next to that of the
    target."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on token vectors, between layers and before the output layer."""
    state_bias: bool = False
    """Whether recurrent layers have a second bias, added to the product with the state, as torch's
    have; a GRU's reset gate is applied to it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_reading(self.reading, self.width)
        return self


class RnnEncoderDecoder(Generator[Padded, Memory, RecurrentState]):
    """p(y | x) where the decoder sees only the encoder's last state of x."""

    static_state = True

    def __init__(self, settings: RnnSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        cell, width = settings.cell, settings.width
        layers, dropout = settings.layers, settings.dropout
        self.dropout = Dropout(dropout)
        self.source = build_embedding(source_size, settings.embedding)
        inputs, reading = settings.embedding or source_size, settings.reading
        self.encoder = RecurrentEncoder(
            cell,
            inputs,
            width,
            layers=layers,
            reading=reading,
            dropout=dropout,
            state_bias=settings.state_bias,
        )
        self.target = build_embedding(target_size, settings.embedding)
        inputs = settings.embedding or target_size
        self.decoder = RecurrentDecoder(
            cell,
            inputs,
            width,
            layers=layers,
            dropout=dropout,
            state_bias=settings.state_bias,
        )
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
        x = self.dropout(self.target(target.ids))  # (B, T, D)
        return Features(self.dropout(self.decoder(x, memory.extras)))

    def start(self, memory: Memory) -> RecurrentState:
        return RecurrentState(tuple(h[:, None] for h in memory.extras))  # each (B, 1, D)

    def step(
        self, tokens: Tensor, state: RecurrentState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, RecurrentState]:
        x = self.dropout(self.target(tokens))  # (B, K, E)
        top, hidden_states = self.decoder.step(x, state.hidden_states)  # (B, K, D)
        return self.logits(self.dropout(top)), RecurrentState(hidden_states)
