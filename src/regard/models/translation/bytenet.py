"""ByteNet: translation by dilated convolutions alone (Kalchbrenner et al. 2016)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, cast

import torch
import torch.nn.functional as F
from pydantic import Field, NonNegativeInt, model_validator
from torch import Tensor, nn

from regard.kernels.dropout import Dropout
from regard.layers.convolution import CausalConvolution, Convolution
from regard.layers.embeddings import build_embedding
from regard.layers.initialization import xavier_linears
from regard.models.contracts import Generator
from regard.models.translation.recurrent_state import RecurrentState, position_tensor
from regard.models.translation.token_rows import TOKEN_ROWS
from regard.settings import NumLayers, NumPositions, Settings, Width
from regard.text.special_tokens import PAD
from regard.types import AttentionHook, Features, Memory, Padded


class ByteNetSettings(Settings):
    """ByteNet; the paper's sizes are 30 and 30 blocks of width 1600, on characters."""

    family: Literal["bytenet"] = "bytenet"
    """The model family."""
    encoder_blocks: NumLayers = 10
    """Number of residual blocks in the encoder."""
    decoder_blocks: NumLayers = 10
    """Number of residual blocks in the decoder."""
    width: Width = 256
    """Width of all vectors between blocks, the paper's 2d; inside blocks it is half of this."""
    kernel: int = Field(default=3, ge=2, le=1_048_576)
    """Number of positions that a convolution sees: its kernel size, in encoder and decoder."""
    max_dilation: NumPositions = 16
    """The largest dilation, the paper's r, a power of two: the distance between these positions
    doubles from block to block, from 1 to this, and then starts again."""
    stretch: float = Field(default=1.2, ge=1.0)
    """Number of encoder positions for each token of the source, the paper's a: about the ratio of
    target to source length."""
    extra: NonNegativeInt = 0
    """Number of further encoder positions, the paper's b."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on token vectors, after each block and before the output layer (the paper has
    none)."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.width % 2:
            raise ValueError(f"blocks halve the width, which must be even, got {self.width}")
        if self.max_dilation & (self.max_dilation - 1):
            raise ValueError(f"max_dilation must be a power of two, got {self.max_dilation}")
        return self

    def dilation(self, number: int) -> int:
        """The dilation of block `number`, from 0."""
        return 1 << number % self.max_dilation.bit_length()


@dataclass(frozen=True)
class ByteNetState(RecurrentState):
    """The windows of all blocks, each (B, K, span, D / 2), and the encoder's columns."""

    columns: Tensor  # (B, S, D)
    position: int = 0  # of the next token; in a traced graph a tensor ()

    def select_sentences(self, sentences: Tensor) -> Self:
        return replace(super().select_sentences(sentences), columns=self.columns[sentences])

    def named_tensors(self) -> dict[str, Tensor]:
        position = position_tensor(self.position, self.columns)
        return {**super().named_tensors(), "columns": self.columns, "position": position}

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        columns, position = tensors["columns"], cast(int, tensors["position"][0])
        return replace(super().with_tensors(tensors), columns=columns, position=position)


class ResidualBlock(nn.Module):
    """A convolution at half of the width in a residual connection (figure 3, left).

    x + W₂ f(C f(W₁ f(x))), where f is a layer norm and a ReLU, W₁ halves the width, C is the
    convolution and W₂ restores the width.
    """

    def __init__(self, convolution: Convolution, dropout: float) -> None:
        super().__init__()
        half = convolution.inputs
        self.first_norm, self.narrow = nn.LayerNorm(2 * half), nn.Linear(2 * half, half)
        self.second_norm, self.convolution = nn.LayerNorm(half), convolution
        self.third_norm, self.widen = nn.LayerNorm(half), nn.Linear(half, 2 * half)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, T, D) -> (B, T, D); positions where `mask` (B, T) is False have no effect."""
        inner = self._before_convolution(x)  # (B, T, D / 2)
        if mask is not None:
            inner = inner.masked_fill(~mask[..., None], 0.0)
        return self._after_convolution(x, self.convolution(inner))

    def _before_convolution(self, x: Tensor) -> Tensor:
        return F.relu(self.second_norm(self.narrow(F.relu(self.first_norm(x)))))  # (B, T, D / 2)

    def _after_convolution(self, x: Tensor, inner: Tensor) -> Tensor:
        out: Tensor = x + self.dropout(self.widen(F.relu(self.third_norm(inner))))
        return out


class CausalBlock(ResidualBlock):
    """A residual block that sees no later positions."""

    convolution: CausalConvolution

    def advance(self, x: Tensor, window: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(B, T, D) -> (B, T, D) and the next window: see `CausalConvolution.advance`."""
        inner, window = self.convolution.advance(self._before_convolution(x), window)
        return self._after_convolution(x, inner), window


class ByteNet(Generator[Padded, Memory, ByteNetState]):
    """A decoder stacked on the encoder, position by position, without attention.

        z = norm(encoder(E_s s_1, …, E_s s_|s|, E_s pad, …))   over |t̂| = a|s| + b columns
        x_t = W [z_t; E_t y_{t-1}]                             z_t = 0 where t > |t̂|
        p(y_t) = softmax(W_o ReLU(norm(W_f decoder(x_1, …, x_t))))

    Encoder and decoder are stacks of residual blocks, whose dilation doubles. The decoder is
    unfolded until EOS, also beyond the encoder's columns (section 3.2). The paper leaves open how
    a column and a token's vector are joined: here by a matrix W.
    """

    def __init__(self, settings: ByteNetSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        width, kernel, dropout = settings.width, settings.kernel, settings.dropout
        self.stretch, self.extra, half = settings.stretch, settings.extra, width // 2
        self.dropout = Dropout(dropout)
        self.source = build_embedding(source_size, width)
        self.encoder = nn.ModuleList(
            ResidualBlock(Convolution(half, half, kernel, dilation=dilation), dropout)
            for dilation in map(settings.dilation, range(settings.encoder_blocks))
        )
        self.encoder_norm = nn.LayerNorm(width)
        self.target = build_embedding(target_size, width)
        self.join = nn.Linear(2 * width, width)
        stack = nn.ModuleList(
            CausalBlock(CausalConvolution(half, half, kernel, dilation=dilation), dropout)
            for dilation in map(settings.dilation, range(settings.decoder_blocks))
        )
        self.decoder = cast(Sequence[CausalBlock], stack)
        self.finish = nn.Linear(width, width)
        self.decoder_norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, target_size)
        xavier_linears(self)

    def named_rows(self) -> Mapping[str, str]:
        return TOKEN_ROWS

    def encode(self, source: Padded, *, hook: AttentionHook | None = None) -> Memory:
        length = source.mask.shape[1]
        columns = self._num_columns(length)
        ids = source.ids.masked_fill(~source.mask, PAD)
        ids = F.pad(ids, (0, columns - length), value=PAD)  # (B, |t̂|)
        ends = (source.mask.sum(1, dtype=torch.double) * self.stretch).round() + self.extra  # (B,)
        real = torch.arange(columns, device=ids.device) < ends[:, None]  # (B, |t̂|)
        x = self.dropout(self.source(ids))  # (B, |t̂|, D)
        for block in self.encoder:
            x = block(x, real)
        return Memory(self.encoder_norm(x).masked_fill(~real[..., None], 0.0), real)

    def _num_columns(self, length: int | Tensor) -> int:
        """|t̂| of the longest source; in a traced graph its length is a tensor ()."""
        if isinstance(length, int):
            return round(length * self.stretch) + self.extra
        columns = (length.double() * self.stretch).round().long() + self.extra
        return cast(int, columns)

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> Features:
        missing = target.ids.shape[1] - memory.states.shape[1]
        columns = F.pad(memory.states, (0, 0, 0, missing))  # (B, T, D); a negative pad truncates
        return Features(self._run_decoder(columns, target.ids)[0])

    def start(self, memory: Memory) -> ByteNetState:
        sentences = memory.states.shape[0]
        windows = tuple(block.convolution.zero_state(sentences) for block in self.decoder)
        return ByteNetState(windows, memory.states)

    def step(
        self, tokens: Tensor, state: ByteNetState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, ByteNetState]:
        column = state.columns[:, state.position : state.position + 1]  # (B, 1, D), or past the end
        column = F.pad(column, (0, 0, 0, 1 - column.shape[1]))  # (B, 1, D)
        columns = column.expand(-1, tokens.shape[1], -1)  # (B, K, D)
        features, windows = self._run_decoder(columns, tokens, state.hidden_states)
        after = replace(state, hidden_states=windows, position=state.position + 1)
        return self.logits(features), after

    def _run_decoder(
        self, columns: Tensor, tokens: Tensor, windows: Sequence[Tensor] | None = None
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Features (B, T, D) of `tokens` (B, T); with `windows`, of a step, and the next ones."""
        x = self.join(torch.cat([columns, self.dropout(self.target(tokens))], -1))  # (B, T, D)
        after = []
        for number, block in enumerate(self.decoder):
            x, window = block.advance(x, None if windows is None else windows[number])
            if window is not None:
                after.append(window)
        return self.dropout(F.relu(self.decoder_norm(self.finish(x)))), tuple(after)
