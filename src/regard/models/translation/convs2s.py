"""Convolutional sequence to sequence learning (Gehring et al. 2017)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Literal, Self, cast

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from regard.attention.attend import KeyValues, attend, padding_mask
from regard.attention.positions import (
    LearnedPositions,
    SinusoidPositions,
    check_length,
    check_max_positions,
)
from regard.attention.score_functions import DotScore
from regard.kernels.dropout import Dropout
from regard.layers.convolution import CausalConvolution, Convolution
from regard.models.contracts import Generator
from regard.models.translation.recurrent_state import AttentionDecoderState
from regard.models.translation.token_rows import SOURCE_TOKENS, TARGET_TOKENS
from regard.settings import NumLayers, NumPositions, Settings, Width
from regard.types import AttentionHook, Features, Memory, Padded, Site

SQRT_HALF = math.sqrt(0.5)
"""Scales the sum of two independent numbers of equal variance back to that variance."""
EMBEDDING_STD = 0.1
"""Standard deviation of the initial vectors of tokens and positions."""


class ConvS2SSettings(Settings):
    """ConvS2S; the paper's sizes are in the shelf's recipe `convs2s-paper`."""

    family: Literal["convs2s"] = "convs2s"
    """The model family."""
    encoder_layers: NumLayers = 4
    """Number of gated convolutions in the encoder."""
    decoder_layers: NumLayers = 4
    """Number of gated convolutions in the decoder, each with its own attention."""
    width: Width = 256
    """Width of the output of these convolutions."""
    kernel: NumPositions = 3
    """Number of positions that these convolutions see: their kernel size."""
    upper: tuple[tuple[Width, NumPositions], ...] = Field(default=(), max_length=1000)
    """Further layers on top of the encoder, and of the decoder: pairs of a width and a kernel size,
    such as [[768, 3], [2048, 1]]."""
    embedding: Width = 256
    """Width of the vectors of tokens and positions, and of queries and keys."""
    positions: Literal["learned", "sinusoid"] = "learned"
    """How positions are encoded."""
    max_positions: NumPositions | None = None
    """The longest sentence, in tokens, that learned positions cover; 1024 if not given."""
    weight_norm: bool = True
    """Whether each row of a matrix is learned as a direction and a length (weight norm, Salimans
    and Kingma 2016), as in the authors' code."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout on token vectors, on the inputs of convolutions and before the output layer."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        """Fill in defaults that depend on other fields."""
        if not isinstance(given, dict) or given.get("positions", "learned") != "learned":
            return given
        limit = given.get("max_positions")
        return {**given, "max_positions": 1024 if limit is None else limit}

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_max_positions(self.positions, self.max_positions)
        return self

    def shapes(self, layers: int) -> list[tuple[int, int]]:
        """Width and kernel of each layer of a stack."""
        return [*[(self.width, self.kernel)] * layers, *self.upper]


class PositionalEmbedding(nn.Module):
    """The sum of the vectors of a token and of its position."""

    def __init__(self, size: int, settings: ConvS2SSettings) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size, settings.embedding)
        nn.init.normal_(self.tokens.weight, std=EMBEDDING_STD)
        self.positions: LearnedPositions | SinusoidPositions
        if settings.max_positions is None:
            self.positions = SinusoidPositions(settings.embedding)
            self.scale = EMBEDDING_STD / SQRT_HALF  # sinusoids have a deviation of √½
        else:
            self.positions = LearnedPositions(settings.embedding, settings.max_positions)
            nn.init.normal_(self.positions.table.weight, std=EMBEDDING_STD)
            self.scale = 1.0

    def forward(self, ids: Tensor, places: Tensor) -> Tensor:
        """(B, T) and (T|1,) -> (B, T, E)"""
        tokens, positions = self.tokens(ids), self.scale * self.positions(places)
        placed: Tensor = tokens + positions.to(tokens.dtype)
        return placed


class ConvEncoderLayer(nn.Module):
    """A gated convolution in a residual connection."""

    def __init__(self, below: int, width: int, kernel: int, settings: ConvS2SSettings) -> None:
        super().__init__()
        self.dropout = Dropout(settings.dropout)
        self.convolution = Convolution(below, width, kernel, gated=True)
        _init_linear(self.convolution.linear, settings, gain=4 * (1 - settings.dropout))
        self.past = _shortcut(below, width, settings)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, S, D) -> (B, S, D'); positions where `mask` (B, S) is False have no effect."""
        seen = self.dropout(x).masked_fill(~mask[..., None], 0.0)
        out: Tensor = SQRT_HALF * (self.past(x) + self.convolution(seen))
        return out


class ConvDecoderLayer(nn.Module):
    """A gated causal convolution and attention, in a residual connection."""

    def __init__(self, below: int, width: int, kernel: int, settings: ConvS2SSettings) -> None:
        super().__init__()
        self.dropout = Dropout(settings.dropout)
        self.convolution = CausalConvolution(below, width, kernel, gated=True)
        _init_linear(self.convolution.linear, settings, gain=4 * (1 - settings.dropout))
        self.past = _shortcut(below, width, settings)
        self.score = DotScore()
        self.query = _linear(width, settings.embedding, settings)  # W_d
        self.found = _linear(settings.embedding, width, settings)  # W_c

    def forward(
        self,
        x: Tensor,
        window: Tensor | None,
        g: Tensor,
        state: AttentionDecoderState,
        *,
        site: Site,
        hook: AttentionHook | None,
    ) -> tuple[Tensor, Tensor | None]:
        """(B, T, D) -> (B, T, D') for token vectors `g` (B, T, E), and a step's next window."""
        h, window = self.convolution.advance(self.dropout(x), window)  # (B, T, D')
        d = SQRT_HALF * (self.query(h) + g)  # (B, T, E)
        mask = padding_mask(state.real)
        c = attend(self.score, d[:, None], state.memory, mask, site=site, hook=hook)[:, 0]
        h = SQRT_HALF * (h + self.found(c))  # (B, T, E) -> (B, T, D')
        return SQRT_HALF * (self.past(x) + h), window


class ConvS2S(Generator[Padded, Memory, AttentionDecoderState]):
    """Gated convolutions on both sides, and an attention in every layer of the decoder.

    With e and g the vectors of source and target tokens, their positions added, and z the encoder's
    output for the m tokens of the source, a layer of the decoder computes

        h_i = GLU(W_h [x_{i-k+1}; …; x_i] + b_h)
        d_i = √½ (W_d h_i + b_d + g_i)
        a_ij = softmax_j(d_i · z_j)
        c_i = m √(1/m) Σ_j a_ij √½ (z_j + e_j)
        x'_i = √½ (x_i + √½ (h_i + W_c c_i + b_c))

    where x is the output of the layer below. A layer of the encoder is √½ (x_j + GLU(W_h […] +
    b_h)), with x_j in the middle. The factors keep the variance (section 3.4); they are at every
    sum, as in the authors' code and unlike in the paper's formulas. Gradients into the encoder are
    divided by the number of decoder layers.
    """

    def __init__(self, settings: ConvS2SSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        self.max_length, embedding = settings.max_positions, settings.embedding
        self.dropout, keep_prob = Dropout(settings.dropout), 1 - settings.dropout
        self.source = PositionalEmbedding(source_size, settings)
        shapes = settings.shapes(settings.encoder_layers)
        self.encoder_entry = _linear(embedding, shapes[0][0], settings, gain=keep_prob)
        self.encoder = nn.ModuleList(
            ConvEncoderLayer(below, width, kernel, settings)
            for (below, _), (width, kernel) in pairwise([shapes[0], *shapes])
        )
        self.encoder_exit = _linear(shapes[-1][0], embedding, settings)
        self.target = PositionalEmbedding(target_size, settings)
        shapes = settings.shapes(settings.decoder_layers)
        self.decoder_entry = _linear(embedding, shapes[0][0], settings, gain=keep_prob)
        stack = nn.ModuleList(
            ConvDecoderLayer(below, width, kernel, settings)
            for (below, _), (width, kernel) in pairwise([shapes[0], *shapes])
        )
        self.decoder = cast(Sequence[ConvDecoderLayer], stack)
        self.decoder_exit = _linear(shapes[-1][0], embedding, settings)
        self.output = _linear(embedding, target_size, settings, gain=keep_prob)

    def named_rows(self) -> Mapping[str, str]:
        rows: dict[str, str] = {}
        for side, kind in (("source", SOURCE_TOKENS), ("target", TARGET_TOKENS)):
            rows[f"{side}.tokens.weight"] = kind
            rows[f"{side}.positions.table.weight"] = "positions"
        names = (name for name, _ in self.output.named_parameters())  # weight norm adds names
        return rows | {f"output.{name}": TARGET_TOKENS for name in names}

    def encode(self, source: Padded, *, hook: AttentionHook | None = None) -> Memory:
        e = self._embed(self.source, source.ids, 0, source.ids.shape[1])  # (B, S, E)
        x = self.encoder_entry(e)  # (B, S, D)
        for layer in self.encoder:
            x = layer(x, source.mask)
        z = self.encoder_exit(x)  # (B, S, E)
        z = torch.lerp(z.detach(), z, 1 / len(self.decoder))  # z, with a share of its gradient
        size = source.mask.sum(1).to(e.dtype).sqrt()[:, None, None]  # (B, 1, 1): m √(1/m)
        return Memory(z, source.mask, (size * SQRT_HALF * (z + e),))

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> Features:
        features, _ = self._run_decoder(target.ids, self.start(memory), None, hook)
        return Features(features)

    def start(self, memory: Memory) -> AttentionDecoderState:
        rows = memory.mask.shape[0]
        windows = tuple(layer.convolution.zero_state(rows) for layer in self.decoder)
        found = KeyValues(memory.states[:, None], memory.extras[0][:, None])  # (B, 1, S, E)
        return AttentionDecoderState(windows, found, memory.mask)

    def step(
        self, tokens: Tensor, state: AttentionDecoderState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, AttentionDecoderState]:
        features, windows = self._run_decoder(tokens, state, state.hidden_states, hook)
        after = replace(state, hidden_states=windows, position=state.position + 1)
        return self.logits(features), after

    def _run_decoder(
        self,
        ids: Tensor,
        state: AttentionDecoderState,
        windows: Sequence[Tensor] | None,
        hook: AttentionHook | None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Features (B, T, E) of `ids` (B, T); with `windows`, of a step, and the next windows."""
        step, count = (None, ids.shape[1]) if windows is None else (state.position, 1)
        g = self._embed(self.target, ids, state.position, count)  # (B, T, E)
        x, after = self.decoder_entry(g), []  # (B, T, D)
        for number, layer in enumerate(self.decoder):
            window, site = windows and windows[number], Site("cross", number, step)
            x, window = layer(x, window, g, state, site=site, hook=hook)
            after.append(window)
        return self.dropout(self.decoder_exit(x)), tuple(after)

    def _embed(self, embedding: PositionalEmbedding, ids: Tensor, first: int, count: int) -> Tensor:
        """Vectors of `ids` (B, T) at `count` positions from `first`: T of them, or 1 in a step."""
        check_length(first + count, self.max_length)
        places = torch.arange(first, first + count, device=ids.device)
        placed: Tensor = self.dropout(embedding(ids, places))
        return placed


def _shortcut(below: int, width: int, settings: ConvS2SSettings) -> nn.Module:
    """The residual connection: a matrix where the width changes."""
    return nn.Identity() if below == width else _linear(below, width, settings)


def _linear(
    inputs: int, outputs: int, settings: ConvS2SSettings, *, gain: float = 1.0
) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    _init_linear(linear, settings, gain=gain)
    return linear


def _init_linear(linear: nn.Linear, settings: ConvS2SSettings, *, gain: float) -> None:
    """Weights from N(0, gain / n) for n inputs, and zero biases (section 3.5).

    The gain is the share of the inputs that dropout keeps, or 4 times that before a gate.
    """
    nn.init.normal_(linear.weight, std=math.sqrt(gain / linear.in_features))
    nn.init.zeros_(linear.bias)
    if settings.weight_norm:
        weight_norm(linear)
