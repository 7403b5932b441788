"""The Feedback Transformer (Fan et al. 2020, arXiv 2002.09402)."""

from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import KeyValues
from regard.attention.decode_attention import SourceMask
from regard.attention.kv_cache import Ancestry, KVCache, self_cached
from regard.attention.multihead import merge_heads, split_heads
from regard.attention.scores import ScaledDotScore
from regard.layers.init import xavier_linears
from regard.models.translation.transformer import (
    DecoderLayerBase,
    TransformerBase,
    TransformerSettings,
    TransformerState,
)
from regard.models.translation.transformer_settings import StackSettings
from regard.types import AttentionHook, DecoderOutput, Memory, Padded, Site


class FeedbackSettings(StackSettings):
    """A Transformer whose decoder remembers each step as one vector, of all its layers."""

    family: Literal["feedback"] = "feedback"
    """Which model this is."""


class MemoryAttention(nn.Module):
    """A layer's attention to the memory: queries of its own, keys and values that all share."""

    def __init__(self, settings: StackSettings) -> None:
        super().__init__()
        self.heads, self.dropout = settings.heads, settings.attention_dropout
        self.score = ScaledDotScore()
        self.query = nn.Linear(settings.width, settings.width, bias=settings.bias)
        self.out = nn.Linear(settings.width, settings.width, bias=settings.bias)
        xavier_linears(self)

    def forward(
        self,
        x: Tensor,
        cache: KVCache,
        ancestry: Ancestry,
        *,
        site: Site,
        hook: AttentionHook | None,
    ) -> Tensor:
        """What each hypothesis finds in its own past: (B, K, D) -> (B, K, D)."""
        queries = split_heads(self.query(x), self.heads)  # (B, H, K, ·)
        p = self.dropout if self.training else 0.0
        mixed = self_cached(self.score, queries, cache, ancestry, site=site, dropout=p, hook=hook)
        found: Tensor = self.out(merge_heads(mixed))
        return found


class FeedbackLayer(DecoderLayerBase[MemoryAttention]):
    """One whose past is the memory of all layers."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings, MemoryAttention(settings))

    def step(
        self,
        x: Tensor,
        cache: KVCache,
        ancestry: Ancestry,
        source: KeyValues,
        source_mask: SourceMask,
        *,
        layer_index: int,
        hook: AttentionHook | None,
    ) -> Tensor:
        """`x` (B, K, D) of the newest position of each hypothesis, one layer on."""
        step = ancestry.length - 1
        site = Site("decoder", layer_index, step)
        y = self.own(self.around_own.pre(x), cache, ancestry, site=site, hook=hook)
        x = self.around_own.post(x, y)
        return self.cross_and_feed_forward(
            x, source, source_mask, Site("cross", layer_index, step), hook
        )


class Feedback(TransformerBase[FeedbackLayer]):
    """A decoder whose lowest layer sees what the highest has made of the past.

        m_t = Σ_l softmax(w)_l x_t^l                x_t^0 the token's vector, x_t^l out of layer l
        z_t^l = Attn(x_t^l, [m_{-1}, m_0, …, m_{t-1}])
        keys W_k m_t and values W_v m_t, made once for all layers

    So a step sees itself by the way past the sub-layer alone, and the first would see nothing: like
    the authors' code it begins with a memory of zeros, of which one, m_{-1}, is enough here. A
    step can only be taken when those before it are done: teacher forcing goes one by one. With
    norms before the sub-layers the memory has one too. The encoder is a Transformer's.

    A watch of the decoder sees m_{s-1} in column s, so that a map of attention names each memory,
    like each row, by the piece that was answered from there, and the one of zeros `<s>`.
    """

    def __init__(self, settings: FeedbackSettings, source_size: int, target_size: int) -> None:
        transformer_settings = TransformerSettings(**settings.model_dump(exclude={"family"}))
        super().__init__(transformer_settings, source_size, target_size, FeedbackLayer)
        width = settings.width
        self.layer_weights = nn.Parameter(torch.zeros(settings.decoder_layers + 1))  # w
        self.memory_norm = nn.LayerNorm(width) if settings.norm == "pre" else nn.Identity()
        self.key = nn.Linear(width, width, bias=settings.bias)  # W_k
        self.value = nn.Linear(width, width, bias=settings.bias)  # W_v
        for projection in (self.key, self.value):
            xavier_linears(projection)

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> DecoderOutput:
        x = self.embeddings.of_target(target.ids)  # (B, T, D)
        length, state, columns = x.shape[1], self.start(memory), []
        padded_hook = None if hook is None else _padded_hook(hook, length)
        for column in self.add_positions(x, self.target_positions, 0, length).unbind(1):
            features, state = self._advance(column[:, None], state, padded_hook)  # (B, 1, D)
            columns.append(features)
        return DecoderOutput(torch.cat(columns, 1))  # (B, T, D)

    def start(self, memory: Memory) -> TransformerState:
        rows, _, width = memory.states.shape
        zeros = self._project_memory(memory.states.new_zeros(rows, 1, width))
        return self.make_state(memory, [zeros], Ancestry.empty(rows, like=memory.states).extend())

    def step(
        self, tokens: Tensor, state: TransformerState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, TransformerState]:
        x = self.embeddings.of_target(tokens)  # (B, K, D)
        x = self.add_positions(x, self.target_positions, state.ancestry.length - 1, 1)
        features, state = self._advance(x, state, hook)
        return self.logits(features), state

    def _advance(
        self, x: Tensor, state: TransformerState, hook: AttentionHook | None
    ) -> tuple[Tensor, TransformerState]:
        """Features (B, K, D) of the next token, `x` (B, K, D), and the state that remembers it."""
        (cache,), ancestry, layer_outputs = state.past, state.ancestry, [x]
        for layer_index, (layer, source) in enumerate(zip(self.decoder, state.source, strict=True)):
            x = layer.step(
                x, cache, ancestry, source, state.source_mask, layer_index=layer_index, hook=hook
            )
            layer_outputs.append(x)
        new = torch.stack(layer_outputs, -1) @ self.layer_weights.softmax(
            0
        )  # (B, K, D, L + 1) -> (B, K, D)
        past = (cache.append(self._project_memory(new)),)
        return self.decoder_norm(x), replace(state, past=past, ancestry=ancestry.extend())

    def _project_memory(self, memory: Tensor) -> KeyValues:
        """Keys and values of memory vectors (B, K, D)."""
        memory = self.memory_norm(memory)
        return KeyValues(*(split_heads(f(memory), self.heads) for f in (self.key, self.value)))


def _padded_hook(hook: AttentionHook, columns: int) -> AttentionHook:
    """`watch`, shown attention to the past as wide as if all was known from the start."""

    def hooked(site: Site, weights: Tensor, /) -> Tensor:
        if site.part != "decoder":
            return hook(site, weights)
        own = weights.shape[-1]
        return hook(site, F.pad(weights, (0, columns - own)))[..., :own]

    return hooked
