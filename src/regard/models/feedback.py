"""The Feedback Transformer (Fan et al. 2020, arXiv 2002.09402)."""

from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.attend import KeyValues
from regard.attention.cache import Cells, Paths, recall
from regard.attention.few import Sight
from regard.attention.multihead import merge_heads, split_heads
from regard.attention.scores import ScaledDotScore
from regard.layers.initial import xavier_linears
from regard.models.stack_settings import StackSettings
from regard.models.transformer import CrossLayer, Stacks, TransformerSettings
from regard.models.transformer_state import TransformerState
from regard.types import Decoded, Memory, Padded, Site, Watch


class FeedbackSettings(StackSettings):
    """A Transformer whose decoder remembers each step as one vector, of all its layers."""

    family: Literal["feedback"] = "feedback"
    """Which model this is."""


class LookBack(nn.Module):
    """A layer's attention to the memory: queries of its own, keys and values that all share."""

    def __init__(self, settings: StackSettings) -> None:
        super().__init__()
        self.heads, self.dropout = settings.heads, settings.attention_dropout
        self.score = ScaledDotScore()
        self.query = nn.Linear(settings.width, settings.width, bias=settings.bias)
        self.out = nn.Linear(settings.width, settings.width, bias=settings.bias)
        xavier_linears(self)

    def forward(
        self, x: Tensor, cells: Cells, paths: Paths, *, site: Site, watch: Watch | None
    ) -> Tensor:
        """What each hypothesis finds in its own past: (B, K, D) -> (B, K, D)."""
        queries = split_heads(self.query(x), self.heads)  # (B, H, K, ·)
        p = self.dropout if self.training else 0.0
        mixed = recall(self.score, queries, cells, paths, site=site, dropout=p, watch=watch)
        found: Tensor = self.out(merge_heads(mixed))
        return found


class FeedbackLayer(CrossLayer[LookBack]):
    """One whose past is the memory of all layers."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__(settings, LookBack(settings))

    def step(
        self,
        x: Tensor,
        cells: Cells,
        paths: Paths,
        source: KeyValues,
        sight: Sight,
        *,
        number: int,
        watch: Watch | None,
    ) -> Tensor:
        """`x` (B, K, D) of the newest position of each hypothesis, one layer on."""
        step = paths.length - 1
        site = Site("decoder", number, step)
        y = self.own(self.around_own.enter(x), cells, paths, site=site, watch=watch)
        x = self.around_own.leave(x, y)
        return self.finish(x, source, sight, Site("cross", number, step), watch)


class Feedback(Stacks[FeedbackLayer]):
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
        alike = TransformerSettings(**settings.model_dump(exclude={"family"}))
        super().__init__(alike, source_size, target_size, FeedbackLayer)
        width = settings.width
        self.layer_weights = nn.Parameter(torch.zeros(settings.decoder_layers + 1))  # w
        self.memory_norm = nn.LayerNorm(width) if settings.norm == "pre" else nn.Identity()
        self.key = nn.Linear(width, width, bias=settings.bias)  # W_k
        self.value = nn.Linear(width, width, bias=settings.bias)  # W_v
        for projection in (self.key, self.value):
            xavier_linears(projection)

    def decode(self, target: Padded, memory: Memory, *, watch: Watch | None = None) -> Decoded:
        x = self.embeddings.of_target(target.ids)  # (B, T, D)
        length, state, columns = x.shape[1], self.start(memory), []
        wide = None if watch is None else _widened(watch, length)
        for column in self.placed(x, self.target_positions, 0, length).unbind(1):
            features, state = self._advance(column[:, None], state, wide)  # (B, 1, D)
            columns.append(features)
        return Decoded(torch.cat(columns, 1))  # (B, T, D)

    def start(self, memory: Memory) -> TransformerState:
        rows, _, width = memory.states.shape
        zeros = self._cells(memory.states.new_zeros(rows, 1, width))
        return self.begin(memory, [zeros], Paths.empty(rows, like=memory.states).grow())

    def step(
        self, tokens: Tensor, state: TransformerState, *, watch: Watch | None = None
    ) -> tuple[Tensor, TransformerState]:
        x = self.embeddings.of_target(tokens)  # (B, K, D)
        x = self.placed(x, self.target_positions, state.paths.length - 1, 1)
        features, state = self._advance(x, state, watch)
        return self.logits(features), state

    def _advance(
        self, x: Tensor, state: TransformerState, watch: Watch | None
    ) -> tuple[Tensor, TransformerState]:
        """Features (B, K, D) of the next token, `x` (B, K, D), and the state that remembers it."""
        (cells,), paths, made = state.past, state.paths, [x]
        for number, (layer, source) in enumerate(zip(self.decoder, state.source, strict=True)):
            x = layer.step(x, cells, paths, source, state.sight, number=number, watch=watch)
            made.append(x)
        new = torch.stack(made, -1) @ self.layer_weights.softmax(0)  # (B, K, D, L + 1) -> (B, K, D)
        past = (cells.append(self._cells(new)),)
        return self.decoder_norm(x), replace(state, past=past, paths=paths.grow())

    def _cells(self, memory: Tensor) -> KeyValues:
        """Keys and values of memory vectors (B, K, D)."""
        memory = self.memory_norm(memory)
        return KeyValues(*(split_heads(f(memory), self.heads) for f in (self.key, self.value)))


def _widened(watch: Watch, columns: int) -> Watch:
    """`watch`, shown attention to the past as wide as if all was known from the start."""

    def see(site: Site, weights: Tensor, /) -> Tensor:
        if site.part != "decoder":
            return watch(site, weights)
        own = weights.shape[-1]
        return watch(site, F.pad(weights, (0, columns - own)))[..., :own]

    return see
