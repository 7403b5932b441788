"""The Transformer (Vaswani et al. 2017)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, cast

import torch
from pydantic import PositiveInt, model_validator
from torch import Tensor, nn

from regard.attention.attend import KeyValues
from regard.attention.blocks import Span
from regard.attention.cache import Cells, Paths
from regard.attention.few import Sight
from regard.attention.masks import causal_mask, padding_mask
from regard.attention.multihead import MultiHeadAttention, split_heads
from regard.attention.packed import Layout
from regard.attention.positions import (
    Positions,
    PositionsName,
    build_positions,
    check_length,
    check_max_positions,
)
from regard.attention.relative import RelativeKeys
from regard.attention.self_attention import SelfAttention
from regard.layers.dropout import Dropout
from regard.layers.embeddings import TiedEmbeddings
from regard.layers.experts import Experts, ExpertsSettings
from regard.layers.feed_forward import FeedForward
from regard.layers.residual import Residual
from regard.models.contracts import Model, Projection
from regard.models.stack_settings import StackSettings
from regard.models.transformer_state import TransformerState
from regard.settings import Reach
from regard.types import Batch, Decoded, Memory, Padded, Routing, Site, Watch

NEAR = 1024
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
    max_positions: Reach | None = None
    """The longest sentence, in tokens, that learned positions can tell; 1024 if not given."""
    reach: Reach | None = None
    """The distance beyond which relative positions are all the same; 16 if not given, or the
    window where that is less."""
    window: Reach | None = None
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

    def at(self, number: int) -> "TransformerSettings":
        """The settings of layer `number`, from 0: with no experts where it has none."""
        if self.experts is None or (number + 1) % self.experts.every == 0:
            return self
        return self.model_copy(update={"experts": None})


class Fed(NamedTuple):
    """What a layer made of a batch."""

    outputs: Tensor  # (B, T, D), or (N, D) of packed sentences
    routings: tuple[Routing, ...]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.own, self.around_own = _self_attention(settings, ahead=True), _residual(settings)
        self.feed, self.around_feed = _feed_forward(settings), _residual(settings)

    def forward(self, x: Tensor, real: Tensor, *, number: int, watch: Watch | None) -> Fed:
        """(B, S, D) -> (B, S, D), each position looking where `real` (B, S) is True."""
        queries, kv = self.own.project_all(self.around_own.enter(x))
        y = self.own(queries, kv, padding_mask(real), site=Site("encoder", number), watch=watch)
        x = self.around_own.leave(x, y)
        return _feed(self, x, real, Site("encoder", number))

    def packed(self, x: Tensor, at: Layout, *, number: int) -> Fed:
        """`forward` of packed sentences: (N, D) -> (N, D)."""
        y = self.own.reflect(self.around_own.enter(x), at, causal=False)
        x, entered = self.around_own.hand_over(x, y, self.around_feed)
        return _feed_packed(self, x, entered, Site("encoder", number))


OwnT = TypeVar("OwnT", bound=nn.Module)


class CrossLayer(nn.Module, Generic[OwnT]):
    """A layer of a decoder: `own` attention to the past, attention to the source, feed-forward."""

    def __init__(self, settings: TransformerSettings, own: OwnT) -> None:
        super().__init__()
        self.own, self.around_own = own, _residual(settings)
        self.cross, self.around_cross = _attention(settings), _residual(settings)
        self.feed, self.around_feed = _feed_forward(settings), _residual(settings)

    def look(
        self, x: Tensor, source: KeyValues, mask: Tensor, site: Site, watch: Watch | None
    ) -> Tensor:
        """`x` (B, T, D), all positions of a target, after a look at the source."""
        queries = self.cross.project_queries(self.around_cross.enter(x))
        return self.around_cross.leave(x, self.cross(queries, source, mask, site=site, watch=watch))

    def finish(
        self, x: Tensor, source: KeyValues, sight: Sight, site: Site, watch: Watch | None
    ) -> Tensor:
        """A step's `x` (B, K, D) after a look at the source and the feed-forward."""
        queries = self.cross.project_queries(self.around_cross.enter(x))
        y = self.cross.glance(queries, source, sight, site=site, watch=watch)
        x = self.around_cross.leave(x, y)
        feed = self.feed.step if isinstance(self.feed, Experts) else self.feed
        return self.around_feed.leave(x, feed(self.around_feed.enter(x)))


class DecoderLayer(CrossLayer[SelfAttention]):
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
        number: int,
        watch: Watch | None,
    ) -> Fed:
        """(B, T, D) -> (B, T, D), all positions of a target at once, of which `real` (B, T) are."""
        queries, kv = self.own.project_all(self.around_own.enter(x))
        y = self.own(queries, kv, causal, site=Site("decoder", number), watch=watch)
        x = self.around_own.leave(x, y)
        x = self.look(x, source, mask, Site("cross", number), watch)
        return _feed(self, x, real, Site("decoder", number))

    def packed(self, x: Tensor, memory: Tensor, at: Layout, of: Layout, *, number: int) -> Fed:
        """`forward` of packed sentences: (N, D) -> (N, D), looking at a `memory` (M, D) of them."""
        y = self.own.reflect(self.around_own.enter(x), at, causal=True)
        x, entered = self.around_own.hand_over(x, y, self.around_cross)
        y = self.cross.look(entered, memory, at, of)
        x, entered = self.around_cross.hand_over(x, y, self.around_feed)
        return _feed_packed(self, x, entered, Site("decoder", number))

    def step(
        self,
        x: Tensor,
        past: Cells,
        paths: Paths,
        source: KeyValues,
        sight: Sight,
        *,
        number: int,
        watch: Watch | None,
    ) -> tuple[Tensor, Cells]:
        """`x` (B, K, D) of the newest position of each hypothesis, and the past with it."""
        step = paths.length - 1
        queries, new = self.own.project_all(self.around_own.enter(x), at=step)
        past = past.append(new, paths.spot)
        y = self.own.recall(queries, past, paths, site=Site("decoder", number, step), watch=watch)
        x = self.around_own.leave(x, y)
        return self.finish(x, source, sight, Site("cross", number, step), watch), past


LayerT = TypeVar("LayerT", bound=CrossLayer[Any])


class Stacks(Model[TransformerState], Generic[LayerT]):
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
        self.limit, self.heads = limit, settings.heads
        self.routes = settings.experts is not None
        self.embeddings = TiedEmbeddings(source_size, target_size, width, settings.embeddings)
        self.source_positions = build_positions(settings.positions, width, limit or 0)
        self.target_positions = build_positions(settings.positions, width, limit or 0)
        self.dropout = Dropout(settings.dropout)
        encoder = nn.ModuleList(
            EncoderLayer(settings.at(number)) for number in range(settings.encoder_layers)
        )
        decoder = nn.ModuleList(
            layer(settings.at(number)) for number in range(settings.decoder_layers)
        )
        self.encoder = cast(Sequence[EncoderLayer], encoder)
        self.decoder = cast(Sequence[LayerT], decoder)
        last = settings.final_norm
        self.encoder_norm = nn.LayerNorm(width) if last else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if last else nn.Identity()

    def encode(self, source: Padded, *, watch: Watch | None = None) -> Memory:
        if watch is not None or not self._fits_parts(source):
            return self._encode(source, watch)
        states = self.embeddings.source.new_zeros(*source.ids.shape, self.embeddings.width)
        for part in _parts(source):
            mask = source.mask[part]
            longest = max(1, int(mask.sum(1).max()))
            some = Padded(source.ids[part, :longest], mask[:, :longest])
            states[part, :longest] = self._encode(some, None).states
        return Memory(states, source.mask)

    def _encode(self, source: Padded, watch: Watch | None) -> Memory:
        """`encode` of all sentences at once."""
        x = self.embeddings.of_source(source.ids)  # (B, S, D)
        x = self.placed(x, self.source_positions, 0, x.shape[1])
        routings: tuple[Routing, ...] = ()
        for number, layer in enumerate(self.encoder):
            x, more = layer(x, source.mask, number=number, watch=watch)
            routings += more
        return Memory(self.encoder_norm(x), source.mask, routings=routings)

    def _fits_parts(self, source: Padded) -> bool:
        """Whether some sentences at a time are encoded faster than all at once.

        On a CPU, whose caches are to hold what a layer makes of them; float64 is for proofs.
        """
        if torch.is_grad_enabled() or self.routes or source.ids.numel() <= NEAR:
            return False
        vectors = self.embeddings.source
        return vectors.device.type == "cpu" and vectors.dtype != torch.float64

    def logits(self, features: Tensor) -> Tensor:
        return self.embeddings.logits(features)

    def output_layer(self) -> Projection:
        return Projection(self.embeddings.outputs)

    def placed(
        self, x: Tensor, positions: Positions | None, first: int | Tensor, count: int
    ) -> Tensor:
        """`x` (B, T, D) told that it stands at `count` positions (T of them, or one) from `first`.

        In a step all K hypotheses stand at the same one; of a steady state the host does not know
        which, and who searches keeps to the limit.
        """
        if isinstance(first, int):
            check_length(first + count, self.limit)
        if positions is not None:
            if isinstance(first, Tensor):
                places = positions(first[None])  # (1, D)
            elif count == 1:
                places = positions.at(first, x.device)  # (1, D)
            else:
                places = positions(torch.arange(first, first + count, device=x.device))  # (T, D)
            x = x + places.to(x.dtype)
        placed: Tensor = self.dropout(x)
        return placed

    def begin(self, memory: Memory, past: Sequence[KeyValues], paths: Paths) -> TransformerState:
        """A state that sees all of `memory`, with this `past`."""
        sight = Sight.of(padding_mask(memory.mask), memory.states.dtype)
        source = (layer.cross.project_memory(memory.states) for layer in self.decoder)
        return TransformerState(
            tuple(map(sight.clear, source)), sight, tuple(map(Cells, past)), paths
        )


class Transformer(Stacks[DecoderLayer]):
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
        self.packs = settings.window is None and settings.reach is None

    def decode(self, target: Padded, memory: Memory, *, watch: Watch | None = None) -> Decoded:
        x = self.embeddings.of_target(target.ids)  # (B, T, D)
        length = x.shape[1]
        x = self.placed(x, self.target_positions, 0, length)
        if self.window is None:
            causal = causal_mask(length, length, where=x.device)  # hides the padding too, the last
        else:  # each layer hides what lies outside its window, and with it the future
            causal = torch.ones(1, 1, 1, length, dtype=torch.bool, device=x.device)
        mask = padding_mask(memory.mask)
        routings: tuple[Routing, ...] = ()
        for number, layer in enumerate(self.decoder):
            source = layer.cross.project_memory(memory.states)
            x, more = layer(x, causal, source, mask, target.mask, number=number, watch=watch)
            routings += more
        return Decoded(self.decoder_norm(x), routings)

    def teach(self, batch: Batch) -> Decoded:
        """Without padding, where the model and its precision allow it."""
        if not self.packs or self.embeddings.source.dtype == torch.float64:
            return super().teach(batch)
        of = Layout.of(batch.source.mask, batch.source_places)
        at = Layout.of(batch.target.mask, batch.places)
        x = self._pack(self.embeddings.of_source, batch.source, self.source_positions, of)  # (N, D)
        routings: tuple[Routing, ...] = ()
        for number, below in enumerate(self.encoder):
            x, more = below.packed(x, of, number=number)
            routings += more
        memory = self.encoder_norm(x)
        x = self._pack(self.embeddings.of_target, batch.target, self.target_positions, at)  # (M, D)
        for number, layer in enumerate(self.decoder):
            x, more = layer.packed(x, memory, at, of, number=number)
            routings += more
        return Decoded(self.decoder_norm(x), routings)

    def _pack(
        self,
        embed: Callable[[Tensor], Tensor],
        given: Padded,
        positions: Positions | None,
        at: Layout,
    ) -> Tensor:
        """The vectors (N, D) of the real tokens of a rectangle, told where they stand."""
        check_length(at.longest, self.limit)
        x = embed(at.pack(given.ids))  # (N, D)
        if positions is not None:
            places = positions(torch.arange(at.longest, device=x.device)).to(x.dtype)  # (T, D)
            x = x + places.index_select(0, at.positions())
        packed: Tensor = self.dropout(x)
        return packed

    def start(self, memory: Memory) -> TransformerState:
        nothing = split_heads(memory.states[:, :0], self.heads)  # (B, H, 0, K)
        past = [KeyValues(nothing, nothing)] * len(self.decoder)
        return self.begin(memory, past, Paths.empty(len(memory.mask), like=memory.states))

    def step(
        self, tokens: Tensor, state: TransformerState, *, watch: Watch | None = None
    ) -> tuple[Tensor, TransformerState]:
        x = self.embeddings.of_target(tokens)  # (B, K, D)
        x = self.placed(x, self.target_positions, state.paths.next, 1)
        paths, past = state.paths.grow(), []
        seen = paths if self.window is None else paths.within(self.window)
        layers = zip(self.decoder, state.past, state.source, strict=True)
        for number, (layer, own, source) in enumerate(layers):
            x, grown = layer.step(x, own, seen, source, state.sight, number=number, watch=watch)
            past.append(grown)
        logits = self.logits(self.decoder_norm(x))  # (B, K, V)
        return logits, replace(state, past=tuple(past), paths=paths)

    def steady(self, state: TransformerState, steps: int, clock: Tensor) -> TransformerState | None:
        """Where positions are added to vectors, and all that was said is seen.

        Float64 is for proofs: it reads each hypothesis's own past, whose length the host must know.
        """
        if self.target_positions is None or self.window is not None or self.routes:
            return None
        if state.sight.hidden.dtype == torch.float64:
            return None
        width = state.paths.trails.shape[2]
        past = tuple(cells.steady(steps * width) for cells in state.past)
        return replace(state, past=past, paths=state.paths.steady(steps, clock))


def _parts(source: Padded) -> list[slice]:
    """Which sentences are encoded together."""
    sentences, length = source.ids.shape
    size = max(1, NEAR // max(1, length))
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
        span = Span(settings.window, settings.window if ahead else 0)
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
    width, hidden, dropout = settings.width, settings.feed_forward, settings.activation_dropout
    if settings.experts is not None:
        activation = settings.activation
        return Experts(settings.experts, width, hidden, activation=activation, dropout=dropout)
    return FeedForward(width, hidden, settings.activation, dropout=dropout, bias=settings.bias)


def _feed(layer: EncoderLayer | CrossLayer[Any], x: Tensor, real: Tensor, site: Site) -> Fed:
    """`x` (B, T, D) after the last sub-layer of `layer`."""
    entered = layer.around_feed.enter(x)
    if isinstance(layer.feed, Experts):
        y, routing = layer.feed(entered, real, site=site)
        return Fed(layer.around_feed.leave(x, y), (routing,))
    return Fed(layer.around_feed.leave(x, layer.feed(entered)), ())


def _feed_packed(
    layer: EncoderLayer | CrossLayer[Any], x: Tensor, entered: Tensor, site: Site
) -> Fed:
    """`_feed` of packed sentences `x` (N, D), of which `entered` is what the sub-layer is given."""
    if isinstance(layer.feed, Experts):
        every = torch.ones(1, len(x), dtype=torch.bool, device=x.device)
        y, routing = layer.feed(entered[None], every, site=site)  # one row of which all is real
        return Fed(layer.around_feed.leave(x, y[0]), (routing,))
    if layer.around_feed.first:  # no norm follows, whose kernel would add a bias
        return Fed(layer.around_feed.leave(x, layer.feed(entered)), ())
    return Fed(layer.around_feed.leave(x, *layer.feed.bare(entered)), ())


def _residual(settings: TransformerSettings) -> Residual:
    return Residual(settings.width, settings.norm, settings.dropout)
