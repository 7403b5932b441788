"""A fresh model of ours, of a shape that peers can have too."""

from bench.peers.contract import ModelShape
from regard.models.build import build_model
from regard.models.contracts import AnyGenerator
from regard.models.translation.transformer_settings import TransformerSettings


def build_fresh_model(shape: ModelShape) -> AnyGenerator:
    """A Transformer with one vocabulary for both languages."""
    settings = TransformerSettings(
        encoder_layers=shape.encoder_layers,
        decoder_layers=shape.decoder_layers,
        width=shape.width,
        heads=shape.heads,
        feed_forward=shape.feed_forward,
        dropout=shape.dropout,
        norm=shape.norm,
    )
    return build_model(settings, shape.vocabulary, shape.vocabulary, joint=True)
