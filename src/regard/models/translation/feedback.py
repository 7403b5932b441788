"""The Feedback Transformer (Fan et al. 2020, arXiv 2002.09402)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import KeyValues
from regard.attention.kv_cache import Ancestry, attend_cached
from regard.attention.multihead import (
    AttentionHeads,
    LayerAttention,
    MultiHeadAttention,
    merge_heads,
    split_heads,
)
from regard.layers.initialization import xavier_linears
from regard.models.translation.transformer import TransformerBase, TransformerState
from regard.models.translation.transformer_settings import StackSettings, TransformerSettings
from regard.types import AttentionHook, Features, Memory, Padded, Site


class FeedbackSettings(StackSettings):
    """A Transformer whose decoder remembers each step as one vector, computed from all its
    layers.
    """

    family: Literal["feedback"] = "feedback"
    """The model family."""


class MemoryAttention(AttentionHeads):
    """A layer's attention to the memory; keys and values are shared by all layers."""

    def __init__(self, settings: StackSettings) -> None:
        super().__init__(settings.heads, settings.attention_dropout)
        self.query = nn.Linear(settings.width, settings.width, bias=settings.bias)
        self.out = nn.Linear(settings.width, settings.width, bias=settings.bias)
        xavier_linears(self)


@dataclass
class FeedbackAttention(LayerAttention[MemoryAttention]):
    """The attention of the decoder's layers at the newest position of each hypothesis."""

    step: int
    state: TransformerState
    hook: AttentionHook | None
    part, real = "decoder", None

    def self_attend(self, attention: MemoryAttention, x: Tensor, layer: int) -> Tensor:
        queries = split_heads(attention.query(x), attention.heads)  # (B, H, K, ·)
        score, cache, ancestry = attention.score, self.state.past[0], self.state.ancestry
        site, p = Site("decoder", layer, self.step), attention.dropout_p
        return merge_heads(
            attend_cached(score, queries, cache, ancestry, site=site, dropout=p, hook=self.hook)
        )

    def cross_attend(self, attention: MultiHeadAttention, x: Tensor, layer: int) -> Tensor:
        kv, mask = self.state.source[layer], self.state.source_mask
        site = Site("cross", layer, self.step)
        return attention.attend_source(x, kv, mask, site=site, hook=self.hook)


class Feedback(TransformerBase[MemoryAttention]):
    """A decoder in which every layer attends to what all layers computed at earlier positions.

        m_t = Σ_l softmax(w)_l x_t^l                x_t^0 the token's vector, x_t^l out of layer l
        z_t^l = Attn(x_t^l, [m_{-1}, m_0, …, m_{t-1}])
        keys W_k m_t and values W_v m_t, computed once for all layers

    The first step attends to zeros, m_{-1}, as in the authors' code. Teacher forcing runs position
    by position. With pre-norm the memory has a norm too. The encoder is a Transformer's.

    In the weights that the decoder's hooks get, column s belongs to m_{s-1}. Columns of attention
    maps, like rows, are labelled with the tokens predicted there, and with `<s>` for the zeros.
    """

    def __init__(self, settings: FeedbackSettings, source_size: int, target_size: int) -> None:
        transformer_settings = TransformerSettings(**settings.model_dump(exclude={"family"}))
        super().__init__(transformer_settings, source_size, target_size, MemoryAttention)
        width = settings.width
        self.layer_weights = nn.Parameter(torch.zeros(settings.decoder_layers + 1))  # w
        self.memory_norm = nn.LayerNorm(width) if settings.norm == "pre" else nn.Identity()
        self.key = nn.Linear(width, width, bias=settings.bias)  # W_k
        self.value = nn.Linear(width, width, bias=settings.bias)  # W_v
        for projection in (self.key, self.value):
            xavier_linears(projection)

    def decode(
        self, target: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> Features:
        x = self.embeddings.of_target(target.ids)  # (B, T, D)
        length, state, columns = x.shape[1], self.start(memory), []
        padded_hook = None if hook is None else _padded_hook(hook, length)
        for column in self.add_positions(x, "target", 0, length).unbind(1):
            features, state = self._advance(column[:, None], state, padded_hook)  # (B, 1, D)
            columns.append(features)
        return Features(torch.cat(columns, 1))  # (B, T, D)

    def start(self, memory: Memory) -> TransformerState:
        rows, _, width = memory.states.shape
        zeros = self._project_memory(memory.states.new_zeros(rows, 1, width))
        return self.make_state(memory, [zeros], Ancestry.empty(rows, like=memory.states).extend())

    def step(
        self, tokens: Tensor, state: TransformerState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, TransformerState]:
        x = self.embeddings.of_target(tokens)  # (B, K, D)
        x = self.add_positions(x, "target", state.ancestry.length - 1, 1)
        features, state = self._advance(x, state, hook)
        return self.logits(features), state

    def _advance(
        self, x: Tensor, state: TransformerState, hook: AttentionHook | None
    ) -> tuple[Tensor, TransformerState]:
        """Features (B, K, D) of the next token, `x` (B, K, D), and the state after it."""
        attention = FeedbackAttention(state.ancestry.length - 1, state, hook)
        layer_outputs = [x]
        for index, layer in enumerate(self.decoder):
            x, _ = layer(x, attention, index)
            layer_outputs.append(x)
        weights = self.layer_weights.softmax(0)  # (L + 1,)
        memory = torch.stack(layer_outputs, -1) @ weights  # (B, K, D, L + 1) -> (B, K, D)
        past = (state.past[0].append(self._project_memory(memory)),)
        return self.decoder_norm(x), replace(state, past=past, ancestry=state.ancestry.extend())

    def _project_memory(self, memory: Tensor) -> KeyValues:
        """Keys and values of memory vectors (B, K, D)."""
        memory = self.memory_norm(memory)
        return KeyValues(*(split_heads(f(memory), self.heads) for f in (self.key, self.value)))


def _padded_hook(hook: AttentionHook, columns: int) -> AttentionHook:
    """`hook` for decoder weights padded to `columns`, as under teacher forcing of other models."""

    def padded(site: Site, weights: Tensor, /) -> Tensor:
        if site.part != "decoder":
            return hook(site, weights)
        length = weights.shape[-1]
        return hook(site, F.pad(weights, (0, columns - length)))[..., :length]

    return padded
