"""The Transformer (Vaswani et al. 2017)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, cast

import torch
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.attention.attend import KeyValues, causal_mask, padding_mask
from regard.attention.block_local import SlidingWindow
from regard.attention.decode_attention import SourceMask
from regard.attention.kv_cache import Ancestry, KVCache
from regard.attention.multihead import MultiHeadAttention, SelfAttention, split_heads
from regard.attention.positions import (
    Positions,
    PositionsName,
    RelativeKeys,
    build_positions,
    check_length,
    check_max_positions,
)
from regard.attention.varlen import PackedLayout
from regard.layers.dropout import Dropout
from regard.layers.embeddings import TiedEmbeddings
from regard.layers.experts import Experts, ExpertsSettings
from regard.layers.feed_forward import FeedForward
from regard.layers.residual import Residual
from regard.models.contracts import Model, OutputProjection
from regard.models.translation.transformer_settings import StackSettings
from regard.settings import NumPositions
from regard.types import AttentionHook, Batch, DecoderOutput, Memory, Padded, Routing, Site


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of the source once per sentence, of the past once per cell: see `cache`."""

    source: tuple[KeyValues, ...]  # of each layer (B, H, S, K), cleared by `sight`
    source_mask: SourceMask  # (B, 1, 1, S)
    past: tuple[KVCache, ...]  # of each layer (B, H, P, K)
    ancestry: Ancestry  # (B, K, t) in the P cells

    def select_sentences(self, sentences: Tensor) -> "TransformerState":
        return TransformerState(
            tuple(kv.select_sentences(sentences) for kv in self.source),
            self.source_mask.select_sentences(sentences),
            tuple(cells.select_sentences(sentences) for cells in self.past),
            self.ancestry.select_sentences(sentences),
        )

    def reorder(self, parents: Tensor) -> "TransformerState":
        return replace(self, ancestry=self.ancestry.reorder(parents))


ENCODER_CHUNK_TOKENS = 1024
"""Positions that an encoder on a CPU reads at a time: their vectors stay in its caches. And
sentences are of one length with fewer others, so that less padding is computed."""


class LayerExpertsSettings(ExpertsSettings):
    """Experts in place of feed-forward layers: each as wide inside as one, without biases."""

    every: PositiveInt = 2
    """Of so many layers, the last has experts; 1: all have."""


class TransformerSettings(StackSettings):
    """A Transformer; with nothing given it is the paper's base model."""

    family: Literal["transformer"] = "transformer"
    """Which model this is."""
    positions: PositionsName = "sinusoid"
    """How a token is told its position; relative and rotary ones tell self-attention alone."""
    max_positions: NumPositions | None = None
    """The longest sentence, in tokens, that learned positions can tell; 1024 if not given."""
    reach: NumPositions | None = None
    """The distance beyond which relative positions are all the same; 16 if not given, or the
    window where that is less."""
    window: NumPositions | None = None
    """Tokens to either side, in the decoder before, that self-attention sees; all if not given."""
    experts: LayerExpertsSettings | None = None
    """If given, some layers have experts in place of feed-forward."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, given: Any) -> Any:
        """Make explicit what another field decides."""
        if not isinstance(given, dict):
            return given
        filled, positions = dict(given), given.get("positions")
        if positions == "learned" and given.get("max_positions") is None:
            filled["max_positions"] = 1024
        if positions == "relative" and given.get("reach") is None:
            window = given.get("window")
            filled["reach"] = min(window, 16) if isinstance(window, int) and window > 0 else 16
        return filled

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_max_positions(self.positions, self.max_positions)
        if self.positions != "relative" and self.reach is not None:
            raise ValueError(
                f"reach {self.reach} has no effect on {self.positions} positions, which do not "
                "clip distances; leave it out or set positions to 'relative'"
            )
        if self.window is not None and (self.reach or 0) > self.window:
            raise ValueError(
                f"reach {self.reach} has no effect beyond the window of {self.window}, where "
                f"nothing is seen; make it {self.window} or less"
            )
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise ValueError(
                f"rotary positions turn pairs of numbers, but width {self.width} in {self.heads} "
                f"heads gives each {self.width // self.heads}, which is odd; choose other heads"
            )
        deepest = max(self.encoder_layers, self.decoder_layers)
        if self.experts is not None and self.experts.every > deepest:
            raise ValueError(
                f"experts.every {self.experts.every} leaves no layer with experts, where there are "
                f"{self.encoder_layers} and {self.decoder_layers} layers; make it {deepest} or less"
            )
        return self

    def at(self, layer_index: int) -> "TransformerSettings":
        """The settings of layer `number`, from 0: with no experts where it has none."""
        if self.experts is None or (layer_index + 1) % self.experts.every == 0:
            return self
        return self.model_copy(update={"experts": None})


class LayerOutput(NamedTuple):
    """What a layer made of a batch."""

    outputs: Tensor  # (B, T, D), or (N, D) of packed sentences
    routings: tuple[Routing, ...]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.own, self.around_own = _self_attention(settings, ahead=True), _residual(settings)
        self.feed, self.around_feed = _feed_forward(settings), _residual(settings)

    def forward(
        self, x: Tensor, real: Tensor, *, layer_index: int, hook: AttentionHook | None
    ) -> LayerOutput:
        """(B, S, D) -> (B, S, D), each position looking where `real` (B, S) is True."""
        queries, kv = self.own.project_all(self.around_own.pre(x))
        y = self.own(queries, kv, padding_mask(real), site=Site("encoder", layer_index), hook=hook)
        x = self.around_own.post(x, y)
        return _feed_forward_sublayer(self, x, real, Site("encoder", layer_index))

    def packed(self, x: Tensor, at: PackedLayout, *, layer_index: int) -> LayerOutput:
        """`forward` of packed sentences: (N, D) -> (N, D)."""
        y = self.own.self_packed(self.around_own.pre(x), at, causal=False)
        x, normed = self.around_own.fused_post(x, y, self.around_feed)
        return _feed_forward_packed(self, x, normed, Site("encoder", layer_index))


SelfAttentionT = TypeVar("SelfAttentionT", bound=nn.Module)


class DecoderLayerBase(nn.Module, Generic[SelfAttentionT]):
    """A layer of a decoder: `own` attention to the past, attention to the source, feed-forward."""

    def __init__(self, settings: TransformerSettings, own: SelfAttentionT) -> None:
        super().__init__()
        self.own, self.around_own = own, _residual(settings)
        self.cross, self.around_cross = _attention(settings), _residual(settings)
        self.feed, self.around_feed = _feed_forward(settings), _residual(settings)

    def cross_packed(
        self, x: Tensor, source: KeyValues, mask: Tensor, site: Site, hook: AttentionHook | None
    ) -> Tensor:
        """`x` (B, T, D), all positions of a target, after a look at the source."""
        queries = self.cross.project_queries(self.around_cross.pre(x))
        return self.around_cross.post(x, self.cross(queries, source, mask, site=site, hook=hook))

    def cross_and_feed_forward(
        self,
        x: Tensor,
        source: KeyValues,
        source_mask: SourceMask,
        site: Site,
        hook: AttentionHook | None,
    ) -> Tensor:
        """A step's `x` (B, K, D) after a look at the source and the feed-forward."""
        queries = self.cross.project_queries(self.around_cross.pre(x))
        y = self.cross.cross_step(queries, source, source_mask, site=site, hook=hook)
        x = self.around_cross.post(x, y)
        feed = self.feed.step if isinstance(self.feed, Experts) else self.feed
        return self.around_feed.post(x, feed(self.around_feed.pre(x)))


class DecoderLayer(DecoderLayerBase[SelfAttention]):
    """One whose past is what the layer below made of the tokens before."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings, _self_attention(settings, ahead=False))

    def forward(
        self,
        x: Tensor,
        causal: Tensor,
        source: KeyValues,
        mask: Tensor,
        real: Tensor,
        *,
        layer_index: int,
        hook: AttentionHook | None,
    ) -> LayerOutput:
        """(B, T, D) -> (B, T, D), all positions of a target at once, of which `real` (B, T) are."""
        queries, kv = self.own.project_all(self.around_own.pre(x))
        y = self.own(queries, kv, causal, site=Site("decoder", layer_index), hook=hook)
        x = self.around_own.post(x, y)
        x = self.cross_packed(x, source, mask, Site("cross", layer_index), hook)
        return _feed_forward_sublayer(self, x, real, Site("decoder", layer_index))

    def packed(
        self, x: Tensor, memory: Tensor, at: PackedLayout, of: PackedLayout, *, layer_index: int
    ) -> LayerOutput:
        """`forward` of packed sentences: (N, D) -> (N, D), looking at a `memory` (M, D) of them."""
        y = self.own.self_packed(self.around_own.pre(x), at, causal=True)
        x, normed = self.around_own.fused_post(x, y, self.around_cross)
        y = self.cross.cross_packed(normed, memory, at, of)
        x, normed = self.around_cross.fused_post(x, y, self.around_feed)
        return _feed_forward_packed(self, x, normed, Site("decoder", layer_index))

    def step(
        self,
        x: Tensor,
        past: KVCache,
        ancestry: Ancestry,
        source: KeyValues,
        source_mask: SourceMask,
        *,
        layer_index: int,
        hook: AttentionHook | None,
    ) -> tuple[Tensor, KVCache]:
        """`x` (B, K, D) of the newest position of each hypothesis, and the past with it."""
        step = ancestry.length - 1
        queries, new = self.own.project_all(self.around_own.pre(x), at=step)
        past = past.append(new, ancestry.write_index)
        y = self.own.self_cached(
            queries, past, ancestry, site=Site("decoder", layer_index, step), hook=hook
        )
        x = self.around_own.post(x, y)
        return self.cross_and_feed_forward(
            x, source, source_mask, Site("cross", layer_index, step), hook
        ), past


LayerT = TypeVar("LayerT", bound=DecoderLayerBase[Any])


class TransformerBase(Model[TransformerState], Generic[LayerT]):
    """A Transformer's encoder, and a stack of `layer`s for a decoder to be made of."""

    def __init__(
        self,
        settings: TransformerSettings,
        source_size: int,
        target_size: int,
        layer: Callable[[TransformerSettings], LayerT],
    ) -> None:
        super().__init__()
        width, limit = settings.width, settings.max_positions
        self.max_length, self.heads = limit, settings.heads
        self.has_experts = settings.experts is not None
        self.embeddings = TiedEmbeddings(source_size, target_size, width, settings.embeddings)
        self.source_positions = build_positions(settings.positions, width, limit or 0)
        self.target_positions = build_positions(settings.positions, width, limit or 0)
        self.dropout = Dropout(settings.dropout)
        encoder = nn.ModuleList(
            EncoderLayer(settings.at(layer_index)) for layer_index in range(settings.encoder_layers)
        )
        decoder = nn.ModuleList(
            layer(settings.at(layer_index)) for layer_index in range(settings.decoder_layers)
        )
        self.encoder = cast(Sequence[EncoderLayer], encoder)
        self.decoder = cast(Sequence[LayerT], decoder)
        last = settings.final_norm
        self.encoder_norm = nn.LayerNorm(width) if last else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if last else nn.Identity()

    def encode(self, source: Padded, *, hook: AttentionHook | None = None) -> Memory:
        if hook is not None or not self._encodes_in_chunks(source):
            return self._encode(source, hook)
        states = self.embeddings.source.new_zeros(*source.ids.shape, self.embeddings.width)
        for part in _chunks(source):
            mask = source.mask[part]
            max_seqlen = max(1, int(mask.sum(1).max()))
            some = Padded(source.ids[part, :max_seqlen], mask[:, :max_seqlen])
            states[part, :max_seqlen] = self._encode(some, None).states
        return Memory(states, source.mask)

    def _encode(self, source: Padded, hook: AttentionHook | None) -> Memory:
        """`encode` of all sentences at once."""
        x = self.embeddings.of_source(source.ids)  # (B, S, D)
        x = self.add_positions(x, self.source_positions, 0, x.shape[1])
        routings: tuple[Routing, ...] = ()
        for layer_index, layer in enumerate(self.encoder):
            x, more = layer(x, source.mask, layer_index=layer_index, hook=hook)
            routings += more
        return Memory(self.encoder_norm(x), source.mask, routings=routings)

    def _encodes_in_chunks(self, source: Padded) -> bool:
        """Whether some sentences at a time are encoded faster than all at once.

        On a CPU, whose caches are to hold what a layer makes of them; float64 is for proofs.
        """
        if (
            torch.is_grad_enabled()
            or self.has_experts
            or source.ids.numel() <= ENCODER_CHUNK_TOKENS
        ):
            return False
        vectors = self.embeddings.source
        return vectors.device.type == "cpu" and vectors.dtype != torch.float64

    def logits(self, features: Tensor) -> Tensor:
        return self.embeddings.logits(features)

    def output_layer(self) -> OutputProjection:
        return OutputProjection(self.embeddings.outputs)

    def add_positions(
        self, x: Tensor, positions: Positions | None, first: int | Tensor, count: int
    ) -> Tensor:
        """`x` (B, T, D) told that it stands at `count` positions (T of them, or one) from `first`.

        In a step all K hypotheses stand at the same one; of a steady state the host does not know
        which, and who searches keeps to the limit.
        """
        if isinstance(first, int):
            check_length(first + count, self.max_length)
        if positions is not None:
            if isinstance(first, Tensor):
                places = positions(first[None])  # (1, D)
            elif count == 1:
                places = positions.at(first, x.device)  # (1, D)
            else:
                places = positions(torch.arange(first, first + count, device=x.device))  # (T, D)
            x = x + places.to(x.dtype)
        add_positions: Tensor = self.dropout(x)
        return add_positions

    def make_state(
        self, memory: Memory, past: Sequence[KeyValues], ancestry: Ancestry
    ) -> TransformerState:
        """A state that sees all of `memory`, with this `past`."""
        source_mask = SourceMask.of(padding_mask(memory.mask), memory.states.dtype)
        source = (layer.cross.project_memory(memory.states) for layer in self.decoder)
        return TransformerState(
            tuple(map(source_mask.clear, source)), source_mask, tuple(map(KVCache, past)), ancestry
        )


class Transformer(TransformerBase[DecoderLayer]):
    """Attention in place of recurrence (figure 1 of the paper).

        a layer of the encoder   x ← N(x + Self(x)),   x ← N(x + F(x))
        one of the decoder       x ← N(x + Self(x)),   x ← N(x + Cross(x, z)),   x ← N(x + F(x))
        p(y_t) = softmax(W_o x_t)

    x begins as √D E y with its positions, z is what the encoder made of the source, N a layer norm,
    which may stand elsewhere (see `Residual`), and F the feed-forward layer, max(0, x W₁) W₂ with
    biases. In a decoder `Self` sees nothing later than itself.
    """

    def __init__(self, settings: TransformerSettings, source_size: int, target_size: int) -> None:
        super().__init__(settings, source_size, target_size, DecoderLayer)
        self.window = settings.window
        # sentences may not lie end to end where a layer counts on a rectangle
        self.supports_packing = settings.window is None and settings.reach is None

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> DecoderOutput:
        x = self.embeddings.of_target(target.ids)  # (B, T, D)
        length = x.shape[1]
        x = self.add_positions(x, self.target_positions, 0, length)
        if self.window is None:
            causal = causal_mask(length, length, where=x.device)  # hides the padding too, the last
        else:  # each layer hides what lies outside its window, and with it the future
            causal = torch.ones(1, 1, 1, length, dtype=torch.bool, device=x.device)
        mask = padding_mask(memory.mask)
        routings: tuple[Routing, ...] = ()
        for layer_index, layer in enumerate(self.decoder):
            source = layer.cross.project_memory(memory.states)
            x, more = layer(
                x, causal, source, mask, target.mask, layer_index=layer_index, hook=hook
            )
            routings += more
        return DecoderOutput(self.decoder_norm(x), routings)

    def training_features(self, batch: Batch) -> DecoderOutput:
        """Without padding, where the model and its precision allow it."""
        if not self.supports_packing or self.embeddings.source.dtype == torch.float64:
            return super().training_features(batch)
        of = PackedLayout.of(batch.source.mask, batch.source_indices)
        at = PackedLayout.of(batch.target.mask, batch.target_indices)
        x = self._embed_packed(
            self.embeddings.of_source, batch.source, self.source_positions, of
        )  # (N, D)
        routings: tuple[Routing, ...] = ()
        for layer_index, below in enumerate(self.encoder):
            x, more = below.packed(x, of, layer_index=layer_index)
            routings += more
        memory = self.encoder_norm(x)
        x = self._embed_packed(
            self.embeddings.of_target, batch.target, self.target_positions, at
        )  # (M, D)
        for layer_index, layer in enumerate(self.decoder):
            x, more = layer.packed(x, memory, at, of, layer_index=layer_index)
            routings += more
        return DecoderOutput(self.decoder_norm(x), routings)

    def _embed_packed(
        self,
        embed: Callable[[Tensor], Tensor],
        given: Padded,
        positions: Positions | None,
        at: PackedLayout,
    ) -> Tensor:
        """The vectors (N, D) of the real tokens of a rectangle, told where they stand."""
        check_length(at.max_seqlen, self.max_length)
        x = embed(at.pack(given.ids))  # (N, D)
        if positions is not None:
            places = positions(torch.arange(at.max_seqlen, device=x.device)).to(x.dtype)  # (T, D)
            x = x + places.index_select(0, at.positions())
        packed: Tensor = self.dropout(x)
        return packed

    def start(self, memory: Memory) -> TransformerState:
        empty = split_heads(memory.states[:, :0], self.heads)  # (B, H, 0, K)
        past = [KeyValues(empty, empty)] * len(self.decoder)
        return self.make_state(memory, past, Ancestry.empty(len(memory.mask), like=memory.states))

    def step(
        self, tokens: Tensor, state: TransformerState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, TransformerState]:
        x = self.embeddings.of_target(tokens)  # (B, K, D)
        x = self.add_positions(x, self.target_positions, state.ancestry.next_position, 1)
        ancestry, past = state.ancestry.extend(), []
        seen = ancestry if self.window is None else ancestry.windowed(self.window)
        layers = zip(self.decoder, state.past, state.source, strict=True)
        for layer_index, (layer, own, source) in enumerate(layers):
            x, grown = layer.step(
                x, own, seen, source, state.source_mask, layer_index=layer_index, hook=hook
            )
            past.append(grown)
        logits = self.logits(self.decoder_norm(x))  # (B, K, V)
        return logits, replace(state, past=tuple(past), ancestry=ancestry)

    def to_static(
        self, state: TransformerState, steps: int, step_counter: Tensor
    ) -> TransformerState | None:
        """Where positions are added to vectors, and all that was said is seen.

        Float64 is for proofs: it reads each hypothesis's own past, whose length the host must know.
        """
        if self.target_positions is None or self.window is not None or self.has_experts:
            return None
        if state.source_mask.bias.dtype == torch.float64:
            return None
        width = state.ancestry.ancestor_bias.shape[2]
        past = tuple(cells.to_static(steps * width) for cells in state.past)
        return replace(state, past=past, ancestry=state.ancestry.to_static(steps, step_counter))


def _chunks(source: Padded) -> list[slice]:
    """Which sentences are encoded together."""
    sentences, length = source.ids.shape
    size = max(1, ENCODER_CHUNK_TOKENS // max(1, length))
    return [slice(first, first + size) for first in range(0, sentences, size)]


def _attention(settings: TransformerSettings) -> MultiHeadAttention:
    return MultiHeadAttention(
        settings.width, settings.heads, dropout=settings.attention_dropout, bias=settings.bias
    )


def _self_attention(settings: TransformerSettings, *, ahead: bool) -> SelfAttention:
    """Self-attention that can, or cannot, look ahead."""
    relative, span = None, None
    if settings.reach is not None:
        width, reach = settings.width // settings.heads, settings.reach
        relative = RelativeKeys(width, back=reach, ahead=reach if ahead else 0)
    if settings.window is not None:
        span = SlidingWindow(settings.window, settings.window if ahead else 0)
    return SelfAttention(
        settings.width,
        settings.heads,
        dropout=settings.attention_dropout,
        bias=settings.bias,
        rotary=settings.positions == "rotary",
        relative=relative,
        span=span,
    )


def _feed_forward(settings: TransformerSettings) -> FeedForward | Experts:
    width, bias, dropout = settings.width, settings.feed_forward, settings.activation_dropout
    if settings.experts is not None:
        activation = settings.activation
        return Experts(settings.experts, width, bias, activation=activation, dropout=dropout)
    return FeedForward(width, bias, settings.activation, dropout=dropout, bias=settings.bias)


def _feed_forward_sublayer(
    layer: EncoderLayer | DecoderLayerBase[Any], x: Tensor, real: Tensor, site: Site
) -> LayerOutput:
    """`x` (B, T, D) after the last sub-layer of `layer`."""
    normed = layer.around_feed.pre(x)
    if isinstance(layer.feed, Experts):
        y, routing = layer.feed(normed, real, site=site)
        return LayerOutput(layer.around_feed.post(x, y), (routing,))
    return LayerOutput(layer.around_feed.post(x, layer.feed(normed)), ())


def _feed_forward_packed(
    layer: EncoderLayer | DecoderLayerBase[Any], x: Tensor, normed: Tensor, site: Site
) -> LayerOutput:
    """`_feed` of packed sentences `x` (N, D), of which `entered` is what the sub-layer is given."""
    if isinstance(layer.feed, Experts):
        every = torch.ones(1, len(x), dtype=torch.bool, device=x.device)
        y, routing = layer.feed(normed[None], every, site=site)  # one row of which all is real
        return LayerOutput(layer.around_feed.post(x, y[0]), (routing,))
    if layer.around_feed.first:  # no norm follows, whose kernel would add a bias
        return LayerOutput(layer.around_feed.post(x, layer.feed(normed)), ())
    return LayerOutput(layer.around_feed.post(x, *layer.feed.deferred_bias(normed)), ())


def _residual(settings: TransformerSettings) -> Residual:
    return Residual(settings.width, settings.norm, settings.dropout)
