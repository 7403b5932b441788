"""A Transformer written for these measurements, with torch alone: sentences packed end to end, its
flash attention of packed rows, and torch.compile.

None of our kernels, layers or CUDA graphs is in it. It is measured in training on a GPU; on a CPU,
which has no such attention, it computes the same with a mask, for tests.
"""

import math
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.peers.contract import ModelShape, PeerConfig
from bench.peers.training_loop import SMOOTHING, PeerTrainer
from regard.attention.positions import sinusoid
from regard.types import AnyBatch

LONGEST = 1024


class PackedSide(NamedTuple):
    """The sentences of one side of a batch, end to end."""

    ids: Tensor  # (N,)
    places: Tensor  # (N,) of each token in its sentence
    offsets: Tensor  # (B + 1,) int32: where sentences begin
    longest: int  # an upper bound of their lengths

    @classmethod
    def of(cls, ids: Tensor, mask: Tensor, indices: Tensor) -> Self:
        """From padded `ids` and `mask` (B, S), and the `indices` (N,) of real tokens."""
        offsets = F.pad(mask.sum(1).cumsum(0), (1, 0)).to(torch.int32)
        longest = ids.shape[1]
        return cls(ids.flatten()[indices], indices % longest, offsets, longest)

    def rows(self) -> Tensor:
        """The sentence of each token: (N,)."""
        numbers = torch.arange(len(self.ids), device=self.ids.device)
        return torch.searchsorted(self.offsets[1:], numbers, right=True)


def attend(
    parts: tuple[Tensor, Tensor, Tensor], queries: PackedSide, keys: PackedSide, *, causal: bool
) -> Tensor:
    """The output of queries (N, H, K) for keys and values (M, H, K), each of its own sentence."""
    if parts[0].is_cuda:
        offsets, longest = (queries.offsets, keys.offsets), (queries.longest, keys.longest)
        forward = torch.ops.aten._flash_attention_forward
        output: Tensor = forward(*parts, *offsets, *longest, 0.0, causal, False)[0]
        return output
    mask = queries.rows()[:, None] == keys.rows()  # (N, M)
    if causal:
        mask = mask & (queries.places[:, None] >= keys.places)
    q, k, v = (x.transpose(0, 1) for x in parts)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1)


class SelfAttention(nn.Module):
    """Of the tokens of each sentence to one another."""

    def __init__(self, shape: ModelShape, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = shape.heads, causal
        self.project = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor, side: PackedSide) -> Tensor:
        q, k, v = self.project(x).unflatten(-1, (3, self.heads, -1)).unbind(1)  # (N, H, K) each
        mixed = attend((q, k, v), side, side, causal=self.causal)
        output: Tensor = self.out(mixed.flatten(1))
        return output


class CrossAttention(nn.Module):
    """Of target tokens to those of their source sentence."""

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.query = nn.Linear(shape.width, shape.width)
        self.project = nn.Linear(shape.width, 2 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x: Tensor, side: PackedSide, memory: Tensor, source: PackedSide) -> Tensor:
        q = self.query(x).unflatten(-1, (self.heads, -1))  # (N, H, K)
        k, v = self.project(memory).unflatten(-1, (2, self.heads, -1)).unbind(1)  # (M, H, K) each
        output: Tensor = self.out(attend((q, k, v), side, source, causal=False).flatten(1))
        return output


class Layer(nn.Module):
    """Self-attention, attention to the source in a decoder, and feed-forward."""

    def __init__(self, shape: ModelShape, *, decodes: bool) -> None:
        super().__init__()
        self.pre = shape.norm == "pre"
        self.own = SelfAttention(shape, causal=decodes)
        self.cross = CrossAttention(shape) if decodes else None
        self.feed = nn.Sequential(
            nn.Linear(shape.width, shape.feed_forward),
            nn.ReLU(),
            nn.Linear(shape.feed_forward, shape.width),
        )
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(2 + decodes))
        self.dropout = nn.Dropout(shape.dropout)

    def forward(
        self, x: Tensor, side: PackedSide, memory: Tensor | None, source: PackedSide
    ) -> Tensor:
        first, *middle, last = self.norms
        if self.pre:
            x = x + self.dropout(self.own(first(x), side))
            if self.cross is not None:
                x = x + self.dropout(self.cross(middle[0](x), side, memory, source))
            return x + self.dropout(self.feed(last(x)))  # type: ignore[no-any-return]
        x = first(x + self.dropout(self.own(x, side)))
        if self.cross is not None:
            x = middle[0](x + self.dropout(self.cross(x, side, memory, source)))
        return last(x + self.dropout(self.feed(x)))  # type: ignore[no-any-return]


class PackedTransformer(nn.Module):
    """A batch -> the logits of its real target positions."""

    places: Tensor

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.scale = math.sqrt(shape.width)
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.embedding.weight, std=1 / self.scale)
        self.register_buffer("places", sinusoid(torch.arange(LONGEST), shape.width))
        self.dropout = nn.Dropout(shape.dropout)
        counts = shape.encoder_layers, shape.decoder_layers
        self.encoder, self.decoder = (
            nn.ModuleList(Layer(shape, decodes=decodes) for _ in range(count))
            for decodes, count in zip((False, True), counts, strict=True)
        )
        pre = shape.norm == "pre"
        self.ends = nn.ModuleList(
            nn.LayerNorm(shape.width) if pre else nn.Identity() for _ in counts
        )

    def forward(self, batch: AnyBatch) -> Tensor:
        """(M, V)"""
        given, positions = batch.decoder_input, batch.positions
        assert batch.inputs.indices is not None
        assert positions is not None
        source = PackedSide.of(batch.inputs.ids, batch.inputs.mask, batch.inputs.indices)
        target = PackedSide.of(given.ids, given.mask, positions)
        memory = self._run(self.encoder, source, None, source)
        x = self._run(self.decoder, target, self.ends[0](memory), source)
        return F.linear(self.ends[1](x), self.embedding.weight)

    def _run(
        self, layers: nn.ModuleList, side: PackedSide, memory: Tensor | None, source: PackedSide
    ) -> Tensor:
        x: Tensor = self.embedding(side.ids) * self.scale + self.places[side.places]  # (N, D)
        x = self.dropout(x)
        for layer in layers:
            x = layer(x, side, memory, source)
        return x


def open_trainer(shape: ModelShape, setup: PeerConfig) -> PeerTrainer:
    """A fresh model."""
    model = PackedTransformer(shape).to(setup.device)

    def loss(batch: AnyBatch) -> Tensor:
        return F.cross_entropy(model(batch), batch.labels, label_smoothing=SMOOTHING)

    return PeerTrainer(model, loss, setup)
