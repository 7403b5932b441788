"""GPT: a Transformer decoder that continues a text (Radford et al. 2018, 2019)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self, cast

import torch
from pydantic import Field, PositiveFloat, model_validator
from torch import Tensor, nn

from regard.attention.attend import KeyValues, causal_mask
from regard.attention.grouped import GroupedSelfAttention
from regard.attention.kv_cache import NEG_INF, Ancestry, KVCache
from regard.attention.positions import ROTARY_BASE, LearnedPositions, Rotary, RotaryStretch
from regard.errors import TextError
from regard.kernels.dropout import Dropout
from regard.layers.transformer_parts import (
    ActivationName,
    FeedForward,
    NormName,
    Residual,
    absent_bias,
    draw_normal,
)
from regard.models.contracts import CausalTextEncoder, Generator, OutputProjection
from regard.settings import NumLayers, NumPositions, Settings, Width
from regard.types import AttentionHook, Batch, Features, Padded, Site

INITIAL_STD = 0.02  # of all matrices (Radford et al. 2018, section 4.1)


class GptSettings(Settings):
    """A Transformer decoder; the defaults are the sizes of GPT-2's smallest model."""

    family: Literal["gpt"] = "gpt"
    """The model family."""
    layers: NumLayers = 12
    """Number of layers of self-attention and feed-forward."""
    width: Width = 768
    """Width of all vectors between layers."""
    heads: Width = 12
    """Number of attention heads; unless `head_width` is given, it must divide the width."""
    kv_heads: Width | None = None
    """Number of heads of keys and values, each shared by a group of query heads; it must divide
    `heads`. Left out: one for each head."""
    feed_forward: Width | None = None
    """Width inside the feed-forward layers; left out: four times the width."""
    context: NumPositions = 1024
    """The most tokens of a text that are seen at once."""
    positions: Literal["learned", "rotary"] = "learned"
    """How positions are encoded: added to token vectors, or (rotary) inside self-attention."""
    norm: NormName = "layer"
    """The norm before each sub-layer: `layer` normalises mean and variance, `rms` only the root
    mean square (Zhang and Sennrich 2019)."""
    activation: ActivationName = "gelu"
    """The activation function of the feed-forward layers."""
    gated: bool = False
    """Whether a third matrix of the feed-forward layers, without activation, is multiplied with the
    activations, as in `swiglu`, which is gated `silu`."""
    dropout: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Dropout after each sub-layer, on embeddings and on attention weights."""
    bias: bool = True
    """Whether the linear layers have biases."""
    feed_forward_bias: bool | None = None
    """Whether the linear layers of feed-forward layers have biases; left out: the same as
    `bias`."""
    head_width: Width | None = None
    """Width of each head; left out: the width divided by the heads."""
    norm_epsilon: PositiveFloat | None = None
    """Added to the variance in norms; left out: 1e-5, and for `rms` the machine epsilon of the
    precision."""
    rotary_base: PositiveFloat = ROTARY_BASE
    """The base of the frequencies of rotary positions."""
    rotary_stretch: RotaryStretch | None = None
    """How the frequencies of rotary positions are changed for longer texts; left out: not at
    all."""
    scale_scores: bool = True
    """Whether scores of attention are divided by the root of a head's width."""
    scale_by_layer: bool = False
    """Whether scores of attention are divided by the number of the layer too, from 1."""
    tied: bool = True
    """Whether the output layer shares the matrix of the embeddings."""
    absent: tuple[int, ...] = ()
    """Ids that stand for no token and are never generated: special tokens that the vocabulary of an
    imported model lacks."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.head_width is None and self.width % self.heads:
            raise ValueError(
                f"width must be a multiple of heads, got width {self.width} and heads {self.heads}"
            )
        if self.heads % (self.kv_heads or self.heads):
            raise ValueError(
                f"heads must be a multiple of kv_heads, got {self.heads} and {self.kv_heads}"
            )
        head_width = self.head_width or self.width // self.heads
        if self.positions == "rotary" and head_width % 2:
            raise ValueError(
                f"rotary positions rotate pairs of numbers, but width {self.width} in {self.heads} "
                f"heads gives each {head_width}, which is odd; choose other heads"
            )
        used = self.rotary_base != ROTARY_BASE, self.rotary_stretch is not None
        if self.positions != "rotary" and any(used):
            name = "rotary_base" if used[0] else "rotary_stretch"
            raise ValueError(
                f"{name} {getattr(self, name)} has no effect on {self.positions} positions; "
                "leave it out"
            )
        return self


class PromptCache(NamedTuple):
    """The memory of a language model: keys and values of the prompts in each layer."""

    kv: tuple[KeyValues, ...]  # of each layer (B, G, S, K)
    mask: Tensor  # (B, S) True where a token is real; padding comes last in each row


@dataclass(frozen=True)
class GptState:
    """Keys and values of prompts and hypotheses in the slots of a cache (see `kv_cache`).

    The first S slots of a sentence hold its prompt, once for all hypotheses, with padding masked.
    Prompts may differ in length: positions continue from the end of each prompt.
    """

    past: tuple[KVCache, ...]  # of each layer (B, G, P, K)
    ancestry: Ancestry
    prompt_lengths: Tensor  # (B,)
    prompt_slots: int  # S

    def select_sentences(self, sentences: Tensor) -> "GptState":
        return replace(
            self,
            past=tuple(cache.select_sentences(sentences) for cache in self.past),
            ancestry=self.ancestry.select_sentences(sentences),
            prompt_lengths=self.prompt_lengths[sentences],
        )

    def reorder(self, parents: Tensor) -> "GptState":
        return replace(self, ancestry=self.ancestry.reorder(parents))

    def named_tensors(self) -> dict[str, Tensor]:
        tensors = {
            "slot_mask": self.ancestry.ancestor_bias[:, 0, 0] == 0,  # (B, P)
            "next_position": self.next_positions,
        }
        for index, cache in enumerate(self.past):
            tensors[f"{index}.key"], tensors[f"{index}.value"] = cache.kv
        return tensors

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> "GptState":
        """Treat all slots so far as the prompt."""
        layers = range(len(self.past))
        past = [KeyValues(tensors[f"{i}.key"], tensors[f"{i}.value"]) for i in layers]
        keys, mask = past[0].keys, tensors["slot_mask"]
        bias = keys.new_zeros(mask.shape).masked_fill(~mask, NEG_INF)[:, None, None]
        ancestry = Ancestry.of_past(keys, bias)
        slots = ancestry.single_slots
        return GptState(tuple(map(KVCache, past)), ancestry, tensors["next_position"], slots)

    @property
    def next_positions(self) -> Tensor:
        """The position of each sentence's next token: (B,)."""
        return self.prompt_lengths + (self.ancestry.next_position - self.prompt_slots)


class GptLayer(nn.Module):
    """Self-attention and feed-forward, each after a norm and in a residual connection."""

    def __init__(self, settings: GptSettings, number: int) -> None:
        """`number` is that of the layer, from 1."""
        super().__init__()
        width, dropout = settings.width, settings.dropout
        rotary = Rotary(settings.rotary_base, settings.rotary_stretch)
        head_width = settings.head_width or width // settings.heads
        factor = 1.0 if settings.scale_scores else math.sqrt(head_width)
        self.own = GroupedSelfAttention(
            width,
            settings.heads,
            settings.kv_heads or settings.heads,
            dropout=dropout,
            bias=settings.bias,
            rotary=rotary if settings.positions == "rotary" else None,
            head_width=head_width,
            query_factor=factor / number if settings.scale_by_layer else factor,
        )
        norm, epsilon = settings.norm, settings.norm_epsilon
        self.around_own = Residual(width, "pre", dropout, norm=norm, epsilon=epsilon)
        hidden, own_bias = settings.feed_forward or 4 * width, settings.feed_forward_bias
        bias = settings.bias if own_bias is None else own_bias
        gated = settings.gated
        self.feed = FeedForward(width, hidden, settings.activation, bias=bias, gated=gated)
        self.around_feed = Residual(width, "pre", dropout, norm=norm, epsilon=epsilon)

    def after_attention(
        self, x: Tensor, heads: Tensor, following: Residual
    ) -> tuple[Tensor, Tensor]:
        """The layer's output (..., D) for its input `x` and the `heads` of its attention, and the
        input of the sub-layer inside the `following` residual.
        """
        x, normed = self.around_own.post_then_pre(x, heads, self.own.out, self.around_feed)
        return self.around_feed.post_then_pre(x, self.feed(normed), self.feed.outer, following)


class Gpt(Generator[Padded, PromptCache, GptState], CausalTextEncoder):
    """A stack of causal layers over the embeddings of tokens and positions.

        x = E y + P,   x ← x + Self(N(x)),   x ← x + F(N(x)),   p(y_{t+1}) = softmax(Eᵀ N(x_t))

    N is a norm and F the feed-forward layer. The output layer shares the matrix E of the
    embeddings, unless `tied` is false.
    """

    supports_packing = True  # windows of a text have no padding
    absent_bias: Tensor | None  # (V,) added to the logits; None: every id stands for a token

    def __init__(self, settings: GptSettings, vocabulary: int) -> None:
        super().__init__()
        self.context = settings.context
        self.embedding = nn.Embedding(vocabulary, settings.width)
        learned = settings.positions == "learned"
        self.positions = LearnedPositions(settings.width, settings.context) if learned else None
        self.max_length = settings.context if learned else None
        self.dropout = Dropout(settings.dropout)
        layers = nn.ModuleList(GptLayer(settings, n + 1) for n in range(settings.layers))
        self.layers = cast(Sequence[GptLayer], layers)
        epsilon = settings.norm_epsilon
        self.last = Residual(settings.width, "pre", 0.0, norm=settings.norm, epsilon=epsilon)
        tied, width = settings.tied, settings.width
        self.untied_output = None if tied else nn.Linear(width, vocabulary, bias=False)
        impossible = absent_bias(settings.absent, vocabulary) if settings.absent else None
        self.register_buffer("absent_bias", impossible, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal initialisation; matrices that add to the residual stream are divided by √(2
        layers) (GPT-2).
        """
        draw_normal(self, INITIAL_STD)
        for layer in self.layers:
            for linear in (layer.own.out, layer.feed.outer):
                nn.init.normal_(linear.weight, std=INITIAL_STD / math.sqrt(2 * len(self.layers)))

    def layer_groups(self) -> Sequence[Sequence[nn.Module]]:
        """Embeddings, then each layer; the last with the last norm."""
        positions = () if self.positions is None else (self.positions,)
        return [[self.embedding, *positions], *([layer] for layer in self.layers)]

    def named_rows(self) -> Mapping[str, str]:
        rows = {"embedding.weight": "tokens", "positions.table.weight": "positions"}
        return rows if self.untied_output is None else {**rows, "untied_output.weight": "tokens"}

    def logits(self, features: Tensor) -> Tensor:
        return nn.functional.linear(features, *self.output_layer())

    def output_layer(self) -> OutputProjection:
        layer = self.embedding if self.untied_output is None else self.untied_output
        return OutputProjection(layer.weight, self.absent_bias)

    def encode(self, inputs: Padded, *, hook: AttentionHook | None = None) -> PromptCache:
        _, kv = self._run(inputs.ids, self._no_prompt(inputs), hook)
        return PromptCache(kv, inputs.mask)

    def decode(
        self, given: Padded, memory: PromptCache, *, hook: AttentionHook | None = None
    ) -> Features:
        return Features(self._run(given.ids, memory, hook)[0])

    def training_features(
        self, batch: Batch[Padded], *, hook: AttentionHook | None = None
    ) -> Features:
        """The features (M, D) of all positions of windows without prompts."""
        given, prompted = batch.decoder_input, batch.inputs.ids.shape[1] > 0
        if hook is not None or prompted or batch.positions is not None:
            return super().training_features(batch, hook=hook)
        return Features(self._read_windows(given.ids))

    @property
    def state_width(self) -> int:
        return self.embedding.embedding_dim

    def token_states(self, inputs: Padded, *, hook: AttentionHook | None = None) -> Tensor:
        """The input of `logits`; padding is on the right, so that no token sees it."""
        if hook is not None:
            return self._run(inputs.ids, self._no_prompt(inputs), hook)[0]
        return self._read_windows(inputs.ids).view(*inputs.ids.shape, -1)

    def _read_windows(self, ids: Tensor) -> Tensor:
        """The features of windows (B, T) without prompts: (B * T, D)."""
        shape = ids.shape
        self._check_length(shape[1])
        positions = torch.arange(shape[1], device=ids.device)  # (T,)
        x = self._embed(ids, positions).flatten(0, 1)
        normed = self.layers[0].around_own.pre(x)  # (N, D)
        for index, layer in enumerate(self.layers):
            queries, kv = layer.own.project_all(normed.view(*shape, -1), positions)
            heads = layer.own.attend_causally(queries, kv, site=_site(index), hook=None)
            x, normed = layer.after_attention(x, heads.flatten(0, 1), self._following(index))
        return normed

    def start(self, memory: PromptCache) -> GptState:
        zeros = self.embedding.weight.new_zeros(memory.mask.shape)
        bias = zeros.masked_fill(~memory.mask, NEG_INF)[:, None, None]  # (B, 1, 1, S)
        slots = memory.mask.shape[1]
        return GptState(
            tuple(map(KVCache, memory.kv)),
            Ancestry(bias, (), single_slots=slots),
            memory.mask.sum(1),
            slots,
        )

    def step(
        self, tokens: Tensor, state: GptState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, GptState]:
        positions = state.next_positions[:, None]  # (B, 1)
        x = self._embed(tokens, positions)  # (B, K, D)
        ancestry, caches = state.ancestry.extend(), list(state.past)
        normed = self.layers[0].around_own.pre(x)
        for index, layer in enumerate(self.layers):
            queries, kv = layer.own.project_all(normed, positions[:, None])
            cache = caches[index] = caches[index].append(kv, ancestry.write_index)
            site = _site(index, ancestry.length - state.prompt_slots - 1)
            heads = layer.own.attend_step(queries, cache, ancestry, site=site, hook=hook)
            x, normed = layer.after_attention(x, heads, self._following(index))
        return self.logits(normed), replace(state, past=tuple(caches), ancestry=ancestry)

    def to_static(self, state: GptState, steps: int, step_counter: Tensor) -> GptState | None:
        """None in float64, where each step gathers one more slot."""
        if self.embedding.weight.dtype == torch.float64:
            return None
        width = state.ancestry.ancestor_bias.shape[2]
        past = tuple(cache.to_static(steps * width) for cache in state.past)
        return replace(state, past=past, ancestry=state.ancestry.to_static(steps, step_counter))

    def _run(
        self, ids: Tensor, prompt: PromptCache, hook: AttentionHook | None
    ) -> tuple[Tensor, tuple[KeyValues, ...]]:
        """Features (B, T, D) of `ids` (B, T) after prompts, and their keys and values."""
        count, slots = ids.shape[1], prompt.mask.shape[1]
        if self.max_length is not None and count + slots > self.max_length:
            self._check_length(count + int(prompt.mask.sum(1).max()))  # the longest, unpadded
        first = prompt.mask.sum(1)[:, None]  # (B, 1)
        positions = first + torch.arange(count, device=ids.device)  # (B, T)
        x, new = self._embed(ids, positions), []
        seen = prompt.mask[:, None, None].expand(-1, 1, count, slots)
        causal = causal_mask(count, count, device=ids.device).expand(ids.shape[0], -1, -1, -1)
        mask = torch.cat([seen, causal], -1)  # (B, 1, T, S + T)
        normed = self.layers[0].around_own.pre(x)
        for index, (layer, past) in enumerate(zip(self.layers, prompt.kv, strict=True)):
            queries, kv = layer.own.project_all(normed, positions[:, None])
            new.append(kv)
            whole, site = past.append(kv), _site(index)
            heads = layer.own.attend_masked(queries, whole, mask, site=site, hook=hook)
            x, normed = layer.after_attention(x, heads, self._following(index))
        return normed, tuple(new)

    def _no_prompt(self, inputs: Padded) -> PromptCache:
        """Empty prompts."""
        own, weight = self.layers[0].own, self.embedding.weight
        empty = weight.new_zeros(inputs.ids.shape[0], own.kv_heads, 0, own.head_width)
        return PromptCache((KeyValues(empty, empty),) * len(self.layers), inputs.mask[:, :0])

    def _embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """(B, T) -> (B, T, D), at `positions` (T,), (B, T) or (B, 1)."""
        x: Tensor = self.embedding(ids)
        return self.dropout(x if self.positions is None else x + self.positions(positions))

    def _following(self, index: int) -> Residual:
        """The residual connection after a layer: that of the next layer, or of the last norm."""
        return self.layers[index + 1].around_own if index + 1 < len(self.layers) else self.last

    def _check_length(self, count: int) -> None:
        if self.max_length is not None and count > self.max_length:
            raise TextError(
                f"a text of {count:,} tokens is longer than the {self.max_length:,} that the model "
                "has positions for; give fewer"
            )


def _site(layer: int, step: int | None = None) -> Site:
    return Site("decoder", layer, step)
