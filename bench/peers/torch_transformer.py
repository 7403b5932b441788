"""torch.nn.Transformer, as its documentation has it used: embeddings before, a linear layer behind.

It decodes without a cache, so it is measured in training alone.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench.peers.contract import ModelShape, PeerConfig
from bench.peers.training_loop import SMOOTHING, PeerTrainer
from regard.attention.positions import sinusoid
from regard.types import AnyBatch

LONGEST = 1024


class TorchTransformer(nn.Module):
    """A batch -> the logits of its real target positions."""

    places: Tensor

    def __init__(self, shape: ModelShape) -> None:
        super().__init__()
        self.scale = math.sqrt(shape.width)
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        nn.init.normal_(self.embedding.weight, std=1 / self.scale)
        self.register_buffer("places", sinusoid(torch.arange(LONGEST), shape.width))
        self.dropout = nn.Dropout(shape.dropout)
        self.transformer = nn.Transformer(
            shape.width,
            shape.heads,
            shape.encoder_layers,
            shape.decoder_layers,
            shape.feed_forward,
            shape.dropout,
            batch_first=True,
            norm_first=shape.norm == "pre",
        )

    def forward(self, batch: AnyBatch) -> Tensor:
        """(M, V)"""
        length = batch.decoder_input.ids.shape[1]
        future = torch.ones(length, length, dtype=torch.bool, device=batch.decoder_input.ids.device)
        hidden = self.transformer(
            self._embed(batch.inputs.ids),
            self._embed(batch.decoder_input.ids),
            tgt_mask=future.triu(1),
            src_key_padding_mask=~batch.inputs.mask,
            tgt_key_padding_mask=~batch.decoder_input.mask,
            memory_key_padding_mask=~batch.inputs.mask,
            tgt_is_causal=True,
        )  # (B, T, D)
        return F.linear(hidden.flatten(0, 1)[batch.positions], self.embedding.weight)

    def _embed(self, ids: Tensor) -> Tensor:
        placed = self.embedding(ids) * self.scale + self.places[: ids.shape[1]]  # (B, T, D)
        embedded: Tensor = self.dropout(placed)
        return embedded


def open_trainer(shape: ModelShape, setup: PeerConfig) -> PeerTrainer:
    """A fresh model."""
    model = TorchTransformer(shape).to(setup.device)

    def loss(batch: AnyBatch) -> Tensor:
        return F.cross_entropy(model(batch), batch.labels, label_smoothing=SMOOTHING)

    return PeerTrainer(model, loss, setup)
