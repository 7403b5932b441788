"""The Transformer (Vaswani et al. 2017)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn

from regard.attention.attend import KeyValues, causal_mask, padding_mask
from regard.attention.block_local import SlidingWindow
from regard.attention.kv_cache import Ancestry, KVCache, SourceMask
from regard.attention.multihead import (
    AttentionHeads,
    CachedAttention,
    LayerAttention,
    MultiHeadAttention,
    PackedAttention,
    PaddedAttention,
    SelfAttention,
)
from regard.attention.positions import Positions, RelativeKeys, build_positions, check_length
from regard.attention.varlen import PackedLayout
from regard.kernels.dropout import Dropout
from regard.layers.experts import Experts
from regard.layers.transformer_parts import FeedForward, Residual, TiedEmbeddings
from regard.layers.variational_dropout import VectorDropout
from regard.models.contracts import Generator, OutputProjection
from regard.models.translation.token_rows import SOURCE_TOKENS, TARGET_TOKENS
from regard.models.translation.transformer_settings import TransformerSettings
from regard.text.special_tokens import EOS
from regard.types import AttentionHook, Batch, Features, Memory, Padded, Routing, Site

ENCODER_CHUNK_TOKENS = 1024
"""Source positions encoded at a time on a CPU, which fits its caches and needs less padding."""


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of the source, once per sentence, and of the hypotheses: see `kv_cache`."""

    source: tuple[KeyValues, ...]  # of each layer (B, H, S, K), masked values zero
    source_mask: SourceMask  # (B, 1, 1, S)
    past: tuple[KVCache, ...]  # of each layer (B, H, P, K)
    ancestry: Ancestry  # of K hypotheses in the P slots

    def select_sentences(self, sentences: Tensor) -> "TransformerState":
        return TransformerState(
            tuple(kv.select_sentences(sentences) for kv in self.source),
            self.source_mask.select_sentences(sentences),
            tuple(cache.select_sentences(sentences) for cache in self.past),
            self.ancestry.select_sentences(sentences),
        )

    def reorder(self, parents: Tensor) -> "TransformerState":
        return replace(self, ancestry=self.ancestry.reorder(parents))

    def named_tensors(self) -> dict[str, Tensor]:
        """Keys and values are named as by other exporters of translators."""
        tensors = {"source_mask": self.source_mask.mask[:, 0, 0]}  # (B, S)
        for index, cache in enumerate(self.past):
            tensors |= zip(key_value_names(index, "decoder"), cache.kv, strict=True)
        for index, kv in enumerate(self.source):
            tensors |= zip(key_value_names(index, "encoder"), kv, strict=True)
        return tensors

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "TransformerState":
        past = [
            KeyValues(*(tensors[name] for name in key_value_names(index, "decoder")))
            for index in range(len(self.past))
        ]
        source = [
            KeyValues(*(tensors[name] for name in key_value_names(index, "encoder")))
            for index in range(len(self.source))
        ]
        mask = SourceMask.of(padding_mask(tensors["source_mask"]), past[0].keys.dtype)
        return TransformerState(
            tuple(source), mask, tuple(map(KVCache, past)), Ancestry.of_past(past[0].keys)
        )


def key_value_names(layer: int, part: Literal["encoder", "decoder"]) -> tuple[str, str]:
    """The names of a layer's keys and values, of the source or of the past, in a graph."""
    return f"{layer}.{part}.key", f"{layer}.{part}.value"


class LayerOutput(NamedTuple):
    """The output of a layer, or of a stack of them."""

    outputs: Tensor  # (B, T, D), or (N, D) of packed sentences
    routings: tuple[Routing, ...]


OwnT = TypeVar("OwnT", bound=AttentionHeads)
Side = Literal["source", "target"]


class TransformerLayer(nn.Module, Generic[OwnT]):
    """Self-attention, cross-attention in a decoder, feed-forward: each in a residual connection."""

    def __init__(self, settings: TransformerSettings, own: OwnT, *, decoder: bool) -> None:
        super().__init__()
        width, dropout = settings.width, settings.dropout
        epsilon = settings.norm_epsilon
        self.own = own
        self.around_own = Residual(width, settings.norm, dropout, epsilon=epsilon)
        self.cross: MultiHeadAttention | None = None
        if decoder:
            self.cross = MultiHeadAttention(
                width, settings.heads, dropout=settings.attention_dropout, bias=settings.bias
            )
            self.around_cross = Residual(width, settings.norm, dropout, epsilon=epsilon)
        self.feed = _feed_forward(settings)
        self.around_feed = Residual(width, settings.norm, dropout, epsilon=epsilon)

    def forward(self, x: Tensor, attention: LayerAttention[OwnT], layer_index: int) -> LayerOutput:
        """(B, T, D) -> (B, T, D), or (N, D) -> (N, D) of packed sentences; in a step, T is K."""
        heads = attention.self_attend(self.own, self.around_own.pre(x), layer_index)
        if self.cross is None:
            x, normed = self.around_own.post_then_pre(x, heads, self.own.out, self.around_feed)
        else:
            x, normed = self.around_own.post_then_pre(x, heads, self.own.out, self.around_cross)
            heads = attention.cross_attend(self.cross, normed, layer_index)
            x, normed = self.around_cross.post_then_pre(x, heads, self.cross.out, self.around_feed)
        if isinstance(self.feed, Experts):
            site = Site(attention.part, layer_index, attention.step)
            y, routings = self.feed(normed, attention.real, site=site)
            return LayerOutput(self.around_feed.post(x, y), routings)
        return LayerOutput(self.around_feed.post(x, self.feed(normed), self.feed.outer), ())


class TransformerBase(Generator[Padded, Memory, TransformerState], Generic[OwnT]):
    """A Transformer's encoder, and a decoder whose self-attention is `own`."""

    def __init__(
        self,
        settings: TransformerSettings,
        source_size: int,
        target_size: int,
        own: Callable[[TransformerSettings], OwnT],
    ) -> None:
        super().__init__()
        width, limit = settings.width, settings.max_positions
        of_decoder = settings.of_decoder()
        self.max_length, self.heads = limit, of_decoder.heads
        self.has_experts = settings.experts is not None
        self.source_eos = settings.source_eos
        self.embeddings = TiedEmbeddings(
            source_size,
            target_size,
            width,
            settings.embeddings,
            scaled=settings.scale_embeddings,
            bias=settings.output_bias,
            absent=settings.absent,
            start=settings.decoder_start,
        )
        self.source_positions, self.target_positions = (
            build_positions(
                settings.positions,
                width,
                limit or 0,
                layout=settings.sinusoids,
                first=settings.first_position,
            )
            for _ in range(2)
        )
        self.dropout = Dropout(settings.dropout)
        self.source_dropout = VectorDropout(settings.source_dropout)
        encoder = nn.ModuleList(
            TransformerLayer(
                settings.for_layer(index), _self_attention(settings, ahead=True), decoder=False
            )
            for index in range(settings.encoder_layers)
        )
        decoder = nn.ModuleList(
            TransformerLayer(of_decoder.for_layer(index), own(of_decoder), decoder=True)
            for index in range(settings.decoder_layers)
        )
        self.encoder = cast(Sequence[TransformerLayer[SelfAttention]], encoder)
        self.decoder = cast(Sequence[TransformerLayer[OwnT]], decoder)
        last = settings.final_norm
        epsilon = settings.norm_epsilon
        self.encoder_norm = nn.LayerNorm(width, epsilon) if last else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width, epsilon) if last else nn.Identity()
        first = settings.embedding_norm
        self.source_norm = nn.LayerNorm(width, epsilon) if first else nn.Identity()
        self.target_norm = nn.LayerNorm(width, epsilon) if first else nn.Identity()

    def layer_groups(self) -> Sequence[Sequence[nn.Module]]:
        """Embeddings, each layer of the encoder, each of the decoder."""
        positions = [x for x in (self.source_positions, self.target_positions) if x is not None]
        layers: list[list[nn.Module]] = [[layer] for layer in self.encoder]
        layers += [[layer] for layer in self.decoder]
        return [[self.embeddings, *positions, self.source_norm, self.target_norm], *layers]

    def named_rows(self) -> Mapping[str, str]:
        output = dict.fromkeys(("target", "output", "output_bias"), TARGET_TOKENS)
        tokens = {f"embeddings.{name}": kind for name, kind in output.items()}
        sides = ("source", "target")
        positions = {f"{side}_positions.table.weight": "positions" for side in sides}
        return {"embeddings.source": SOURCE_TOKENS, **tokens, **positions}

    def encode(self, source: Padded, *, hook: AttentionHook | None = None) -> Memory:
        if not self.source_eos:
            source = Padded(source.ids, source.mask & (source.ids != EOS))
        if hook is not None or not self._encodes_in_chunks(source):
            return self._encode(source, hook)
        sentences, length = source.ids.shape
        states = self.embeddings.source.new_zeros(sentences, length, self.embeddings.width)
        size = max(1, ENCODER_CHUNK_TOKENS // max(1, length))
        for first in range(0, sentences, size):
            ids, mask = (x[first : first + size] for x in (source.ids, source.mask))
            longest = max(1, int(mask.sum(1).max()))
            chunk = self._encode(Padded(ids[:, :longest], mask[:, :longest]), None)
            states[first : first + size, :longest] = chunk.states
        return Memory(states, source.mask)

    def _encode(self, source: Padded, hook: AttentionHook | None) -> Memory:
        """`encode` of all sentences at once."""
        x = self.source_dropout(self.embeddings.of_source(source.ids))
        return self.encode_vectors(x, source.mask, hook)

    def encode_vectors(self, x: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Memory:
        """The encoder's output for vectors (B, S, D), of tokens or of other inputs."""
        x = self.add_positions(x, "source", 0, x.shape[1])
        attention = PaddedAttention("encoder", mask, padding_mask(mask), hook)
        x, routings = _run_layers(self.encoder, x, attention)
        return Memory(self.encoder_norm(x), mask, routings=routings)

    def _encodes_in_chunks(self, source: Padded) -> bool:
        """Whether encoding a few sentences at a time is faster: on a CPU, without gradients."""
        if torch.is_grad_enabled() or self.has_experts:
            return False
        weight = self.embeddings.source
        many = source.ids.numel() > ENCODER_CHUNK_TOKENS
        return many and weight.device.type == "cpu" and weight.dtype != torch.float64

    def logits(self, features: Tensor) -> Tensor:
        return self.embeddings.logits(features)

    def output_layer(self) -> OutputProjection:
        return OutputProjection(self.embeddings.outputs, self.embeddings.bias)

    def add_positions(self, x: Tensor, side: Side, first: int | Tensor, count: int) -> Tensor:
        """`x` (B, T, D) plus the encodings of `count` positions (T, or 1 in a step) from `first`.

        If `first` is a tensor (), of a static state, the search checks the maximum length.
        """
        if isinstance(first, int):
            check_length(first + count, self.max_length)
        positions, norm = self.input_layers(side)
        if positions is not None:
            steps = torch.arange(count, device=x.device)  # (T,) or (1,)
            x = x + positions(first + steps).to(x.dtype)
        return self.dropout(norm(x))

    def input_layers(self, side: Side) -> tuple[Positions | None, nn.Module]:
        """The position encodings of a side, if they are added to embeddings, and the norm of this
        sum.
        """
        if side == "source":
            return self.source_positions, self.source_norm
        return self.target_positions, self.target_norm

    def make_state(
        self, memory: Memory, past: Sequence[KeyValues], ancestry: Ancestry
    ) -> TransformerState:
        """The state for `memory` and this `past`."""
        source_mask = SourceMask.of(padding_mask(memory.mask), memory.states.dtype)
        crosses = (layer.cross for layer in self.decoder if layer.cross is not None)
        kv = (source_mask.zero_masked(cross.project_memory(memory.states)) for cross in crosses)
        return TransformerState(tuple(kv), source_mask, tuple(map(KVCache, past)), ancestry)


class Transformer(TransformerBase[SelfAttention]):
    """Attention in place of recurrence (figure 1 of the paper).

        encoder layer   x ← N(x + Self(x)),   x ← N(x + F(x))
        decoder layer   x ← N(x + Self(x)),   x ← N(x + Cross(x, z)),   x ← N(x + F(x))
        p(y_t) = softmax(W_o x_t)

    x begins as √D E y plus position encodings, z is the encoder's output, N a layer norm, which may
    be elsewhere (see `Residual`), and F the feed-forward layer, max(0, x W₁) W₂ with biases. The
    decoder's `Self` is causal.
    """

    def __init__(self, settings: TransformerSettings, source_size: int, target_size: int) -> None:
        super().__init__(settings, source_size, target_size, _self_attention)
        self.window = settings.window
        # relative positions, windows and a masked EOS are computed in the padded form
        padded = settings.window is not None or settings.reach is not None
        self.supports_packing = settings.source_eos and not padded

    def sharded_layers(self) -> Sequence[nn.Module]:
        return [*self.encoder, *self.decoder]

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> Features:
        x = self.embeddings.of_target(target.ids)  # (B, T, D)
        length = x.shape[1]
        x = self.add_positions(x, "target", 0, length)
        if self.window is None:
            mask = causal_mask(length, length, device=x.device)  # padding is last, so masked too
        else:  # the window masks the future
            mask = torch.ones(1, 1, 1, length, dtype=torch.bool, device=x.device)
        attention = PaddedAttention("decoder", target.mask, mask, hook, memory)
        x, routings = _run_layers(self.decoder, x, attention)
        return Features(self.decoder_norm(x), memory.routings + routings)

    def training_features(
        self, batch: Batch[Padded], *, hook: AttentionHook | None = None
    ) -> Features:
        """The features, computed without padding if the settings and the precision allow it."""
        source, target, places = batch.inputs, batch.decoder_input, batch.positions
        packs = self.supports_packing and self.embeddings.source.dtype != torch.float64
        if hook is not None or not packs or source.indices is None or places is None:
            return super().training_features(batch, hook=hook)
        source_layout = PackedLayout.of(source.mask, source.indices)
        target_layout = PackedLayout.of(target.mask, places)
        x = self.embeddings.of_source(source_layout.pack(source.ids))  # (N, D)
        x = self.source_dropout(x)
        x = self._add_packed_positions(x, "source", source_layout)
        x, routings = _run_layers(self.encoder, x, PackedAttention("encoder", source_layout))
        memory = self.encoder_norm(x)
        x = self.embeddings.of_target(target_layout.pack(target.ids))  # (M, D)
        x = self._add_packed_positions(x, "target", target_layout)
        attention = PackedAttention("decoder", target_layout, (memory, source_layout))
        x, more = _run_layers(self.decoder, x, attention)
        return Features(self.decoder_norm(x), routings + more)

    def _add_packed_positions(self, x: Tensor, side: Side, layout: PackedLayout) -> Tensor:
        """`add_positions` of packed sentences: (N, D) -> (N, D)."""
        check_length(layout.max_seqlen, self.max_length)
        positions, norm = self.input_layers(side)
        if positions is not None:
            encodings = positions(torch.arange(layout.max_seqlen, device=x.device))  # (T, D)
            x = x + encodings.to(x.dtype).index_select(0, layout.positions())
        return self.dropout(norm(x))

    def start(self, memory: Memory) -> TransformerState:
        states, rows = memory.states, memory.mask.shape[0]
        empty = states.new_zeros(rows, self.heads, 0, states.shape[2] // self.heads)  # (B, H, 0, K)
        past = [KeyValues(empty, empty)] * len(self.decoder)
        return self.make_state(memory, past, Ancestry.empty(rows, like=states))

    def step(
        self, tokens: Tensor, state: TransformerState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, TransformerState]:
        x = self.embeddings.of_target(tokens)  # (B, K, D)
        x = self.add_positions(x, "target", state.ancestry.next_position, 1)
        ancestry, caches = state.ancestry.extend(), list(state.past)
        visible = ancestry if self.window is None else ancestry.windowed(self.window)
        attention = CachedAttention(
            ancestry.length - 1, caches, visible, state.source, state.source_mask, hook
        )
        x, _ = _run_layers(self.decoder, x, attention)
        logits = self.logits(self.decoder_norm(x))  # (B, K, V)
        return logits, replace(state, past=tuple(caches), ancestry=ancestry)

    def to_static(
        self, state: TransformerState, steps: int, step_counter: Tensor
    ) -> TransformerState | None:
        """None with windows, experts or positions inside self-attention, and in float64, where each
        step gathers one more slot.
        """
        unsupported = self.target_positions is None or self.window is not None or self.has_experts
        if unsupported or state.source_mask.bias.dtype == torch.float64:
            return None
        width = state.ancestry.ancestor_bias.shape[2]
        past = tuple(cache.to_static(steps * width) for cache in state.past)
        return replace(state, past=past, ancestry=state.ancestry.to_static(steps, step_counter))


def _run_layers(
    layers: Sequence[nn.Module], x: Tensor, attention: LayerAttention[Any]
) -> LayerOutput:
    """The output of a stack of layers."""
    routings: tuple[Routing, ...] = ()
    for index, layer in enumerate(layers):
        x, more = layer(x, attention, index)
        routings += more
    return LayerOutput(x, routings)


def _self_attention(settings: TransformerSettings, *, ahead: bool = False) -> SelfAttention:
    """Self-attention; `ahead`: whether relative positions and windows extend to later positions."""
    relative, window = None, None
    if settings.reach is not None:
        width, reach = settings.width // settings.heads, settings.reach
        relative = RelativeKeys(width, back=reach, ahead=reach if ahead else 0)
    if settings.window is not None:
        window = SlidingWindow(settings.window, settings.window if ahead else 0)
    return SelfAttention(
        settings.width,
        settings.heads,
        dropout=settings.attention_dropout,
        bias=settings.bias,
        rotary=settings.positions == "rotary",
        relative=relative,
        window=window,
    )


def _feed_forward(settings: TransformerSettings) -> FeedForward | Experts:
    width, hidden, dropout = settings.width, settings.feed_forward, settings.activation_dropout
    if settings.experts is not None:
        activation = settings.activation
        return Experts(settings.experts, width, hidden, activation=activation, dropout=dropout)
    return FeedForward(width, hidden, settings.activation, dropout=dropout, bias=settings.bias)
