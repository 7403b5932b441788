"""The Transformer (Vaswani et al. 2017)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, cast

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from regard.attention.attend import KeyValues
from regard.attention.cache import Paths
from regard.attention.masks import causal_mask, padding_mask
from regard.attention.multihead import MultiHeadAttention
from regard.attention.positions import (
    PositionsName,
    build_positions,
    check_length,
    check_max_positions,
)
from regard.layers.embeddings import TiedEmbeddings, Tying
from regard.layers.feed_forward import ActivationName, FeedForward
from regard.layers.residual import NormPlace, Residual
from regard.models.contracts import Model
from regard.settings import Settings
from regard.types import Decoded, Memory, Padded, Site, Watch

PRESETS: dict[str, dict[str, Any]] = {
    # Wu et al. 2021 for Multi30k: some thirty thousand pairs.
    "tiny": {
        "encoder_layers": 4,
        "decoder_layers": 4,
        "width": 128,
        "heads": 4,
        "feed_forward": 256,
        "dropout": 0.3,
    },
    # Ours, for a few hundred thousand pairs, or an evening on a CPU.
    "small": {
        "encoder_layers": 3,
        "decoder_layers": 3,
        "width": 256,
        "heads": 4,
        "feed_forward": 1024,
    },
    "base": {},  # the defaults of the fields
    "big": {"width": 1024, "heads": 16, "feed_forward": 4096, "dropout": 0.3},
}
"""What the presets say of fields that are not given."""


class TransformerSettings(Settings):
    """A Transformer; with nothing given it is the paper's base model."""

    family: Literal["transformer"] = "transformer"
    """Which model this is."""
    preset: Literal["tiny", "small", "base", "big"] | None = None
    """Sizes and dropout for all fields that are not given."""
    encoder_layers: PositiveInt = 6
    """Layers that read the source."""
    decoder_layers: PositiveInt = 6
    """Layers that write the target."""
    width: PositiveInt = 512
    """Width of all vectors between layers, the paper's d_model."""
    heads: PositiveInt = 8
    """Subspaces in which each attention looks at once; they divide the width."""
    feed_forward: PositiveInt = 2048
    """Width inside the feed-forward layers, the paper's d_ff."""
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Behind each sub-layer, and on the sums of embeddings and positions."""
    attention_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """On attention weights (the paper has none)."""
    activation_dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Inside the feed-forward layers (the paper has none)."""
    norm: NormPlace = "post"
    """Whether layers are normalised behind each sub-layer, as in the paper, or before it."""
    final_norm: bool | None = None
    """Whether encoder and decoder end in one more norm; if not given, where norm is `pre`."""
    activation: ActivationName = "relu"
    """The bend inside the feed-forward layers."""
    positions: PositionsName = "sinusoid"
    """How a token is told its position."""
    max_positions: PositiveInt | None = None
    """The longest sentence, in tokens, that learned positions can tell; 1024 if not given."""
    embeddings: Tying = "shared"
    """Which of source, target and output share a matrix; `shared` needs a joint vocabulary."""
    bias: bool = True
    """Whether the linear layers have biases."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        """Make explicit what a preset or another field decides."""
        if not isinstance(given, dict):
            return given
        filled = {**PRESETS.get(given.get("preset") or "base", {}), **given}
        if filled.get("final_norm") is None:
            filled["final_norm"] = filled.get("norm") == "pre"
        if filled.get("positions") == "learned" and filled.get("max_positions") is None:
            filled["max_positions"] = 1024
        return filled

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.width % self.heads:
            raise ValueError(
                f"width must be a multiple of heads, got width {self.width} and heads {self.heads}"
            )
        check_max_positions(self.positions, self.max_positions)
        return self


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of the source once per sentence, of the past once per cell: see `cache`."""

    source: tuple[KeyValues, ...]  # of each layer (B, H, S, K)
    mask: Tensor  # (B, 1, 1, S)
    past: tuple[KeyValues, ...]  # of each layer (B, H, P, K)
    paths: Paths  # (B, K, t) in the P cells

    def keep(self, sentences: Tensor) -> "TransformerState":
        return TransformerState(
            tuple(kv.rows(sentences) for kv in self.source),
            self.mask[sentences],
            tuple(kv.rows(sentences) for kv in self.past),
            self.paths.keep(sentences),
        )

    def branch(self, parents: Tensor) -> "TransformerState":
        return TransformerState(self.source, self.mask, self.past, self.paths.branch(parents))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.own, self.around_own = _attention(settings), _residual(settings)
        self.feed, self.around_feed = _feed_forward(settings), _residual(settings)

    def forward(self, x: Tensor, mask: Tensor, *, number: int, watch: Watch | None) -> Tensor:
        """(B, S, D) -> (B, S, D), each position looking where `mask` (B, 1, 1, S) is True."""
        queries, kv = self.own.project_all(self.around_own.enter(x))
        y = self.own(queries, kv, mask, site=Site("encoder", number), watch=watch)
        x = self.around_own.leave(x, y)
        return self.around_feed.leave(x, self.feed(self.around_feed.enter(x)))


class DecoderLayer(nn.Module):
    """Attention to the past, attention to the source, feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.own, self.around_own = _attention(settings), _residual(settings)
        self.cross, self.around_cross = _attention(settings), _residual(settings)
        self.feed, self.around_feed = _feed_forward(settings), _residual(settings)

    def forward(
        self,
        x: Tensor,
        causal: Tensor,
        source: KeyValues,
        mask: Tensor,
        *,
        number: int,
        watch: Watch | None,
    ) -> Tensor:
        """(B, T, D) -> (B, T, D), all positions of a target at once."""
        queries, kv = self.own.project_all(self.around_own.enter(x))
        y = self.own(queries, kv, causal, site=Site("decoder", number), watch=watch)
        x = self.around_own.leave(x, y)
        return self._finish(x, source, mask, Site("cross", number), watch)

    def step(
        self,
        x: Tensor,
        past: KeyValues,
        paths: Paths,
        source: KeyValues,
        mask: Tensor,
        *,
        number: int,
        watch: Watch | None,
    ) -> tuple[Tensor, KeyValues]:
        """`x` (B, K, D) of the newest position of each hypothesis, and the past with it."""
        step = paths.length - 1
        queries, new = self.own.project_all(self.around_own.enter(x))
        past = past.append(new)
        y = self.own.recall(queries, past, paths, site=Site("decoder", number, step), watch=watch)
        x = self.around_own.leave(x, y)
        return self._finish(x, source, mask, Site("cross", number, step), watch), past

    def _finish(
        self, x: Tensor, source: KeyValues, mask: Tensor, site: Site, watch: Watch | None
    ) -> Tensor:
        """What both ways have in common: positions, or hypotheses, look at the source alike."""
        queries = self.cross.project_queries(self.around_cross.enter(x))
        x = self.around_cross.leave(x, self.cross(queries, source, mask, site=site, watch=watch))
        return self.around_feed.leave(x, self.feed(self.around_feed.enter(x)))


class Transformer(Model[TransformerState]):
    """Attention in place of recurrence."""

    def __init__(self, settings: TransformerSettings, source_size: int, target_size: int) -> None:
        super().__init__()
        width, limit = settings.width, settings.max_positions
        self.limit = limit
        self.embeddings = TiedEmbeddings(source_size, target_size, width, settings.embeddings)
        self.source_positions = build_positions(settings.positions, width, limit or 0)
        self.target_positions = build_positions(settings.positions, width, limit or 0)
        self.dropout = nn.Dropout(settings.dropout)
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        stack = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.decoder_layers))
        self.decoder = cast(Sequence[DecoderLayer], stack)
        last = settings.final_norm
        self.encoder_norm = nn.LayerNorm(width) if last else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if last else nn.Identity()

    def encode(self, source: Padded, *, watch: Watch | None = None) -> Memory:
        x = self.embeddings.of_source(source.ids)  # (B, S, D)
        x = self._placed(x, self.source_positions, 0, x.shape[1])
        mask = padding_mask(source.mask)
        for number, layer in enumerate(self.encoder):
            x = layer(x, mask, number=number, watch=watch)
        return Memory(self.encoder_norm(x), source.mask)

    def decode(self, target: Padded, memory: Memory, *, watch: Watch | None = None) -> Decoded:
        x = self.embeddings.of_target(target.ids)  # (B, T, D)
        length = x.shape[1]
        x = self._placed(x, self.target_positions, 0, length)
        causal = causal_mask(length, length, where=x.device)  # hides the padding too: it is last
        mask = padding_mask(memory.mask)
        for number, layer in enumerate(self.decoder):
            source = layer.cross.project_memory(memory.states)
            x = layer(x, causal, source, mask, number=number, watch=watch)
        return Decoded(self.decoder_norm(x))

    def logits(self, features: Tensor) -> Tensor:
        return self.embeddings.logits(features)

    def start(self, memory: Memory) -> TransformerState:
        source = tuple(layer.cross.project_memory(memory.states) for layer in self.decoder)
        return TransformerState(
            source,
            padding_mask(memory.mask),
            tuple(KeyValues(kv.keys[:, :, :0], kv.values[:, :, :0]) for kv in source),
            Paths.empty(len(memory.mask), where=memory.mask.device),
        )

    def step(
        self, tokens: Tensor, state: TransformerState, *, watch: Watch | None = None
    ) -> tuple[Tensor, TransformerState]:
        x = self.embeddings.of_target(tokens)  # (B, K, D)
        x = self._placed(x, self.target_positions, state.paths.length, 1)
        paths, past = state.paths.grow(), []
        layers = zip(self.decoder, state.past, state.source, strict=True)
        for number, (layer, own, source) in enumerate(layers):
            x, grown = layer.step(x, own, paths, source, state.mask, number=number, watch=watch)
            past.append(grown)
        logits = self.logits(self.decoder_norm(x))  # (B, K, V)
        return logits, TransformerState(state.source, state.mask, tuple(past), paths)

    def _placed(self, x: Tensor, positions: nn.Module, first: int, count: int) -> Tensor:
        """`x` (B, T, D) told that it stands at `count` positions (T of them, or one) from `first`.

        In a step all K hypotheses stand at the same one.
        """
        check_length(first + count, self.limit)
        places = positions(torch.arange(first, first + count, device=x.device))  # (T|1, D)
        placed: Tensor = self.dropout(x + places.to(x.dtype))
        return placed


def _attention(settings: TransformerSettings) -> MultiHeadAttention:
    return MultiHeadAttention(
        settings.width, settings.heads, dropout=settings.attention_dropout, bias=settings.bias
    )


def _feed_forward(settings: TransformerSettings) -> FeedForward:
    return FeedForward(
        settings.width,
        settings.feed_forward,
        settings.activation,
        dropout=settings.activation_dropout,
        bias=settings.bias,
    )


def _residual(settings: TransformerSettings) -> Residual:
    return Residual(settings.width, settings.norm, settings.dropout)
