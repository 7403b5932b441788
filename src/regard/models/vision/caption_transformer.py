"""A Transformer that reads the regions of a picture and writes its caption."""

from collections.abc import Mapping
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from regard.layers.initialization import xavier_linears
from regard.models.contracts import CaptionModel, OutputProjection
from regard.models.translation.transformer import Transformer, TransformerState
from regard.models.translation.transformer_settings import TransformerSettings
from regard.models.vision.encoder_settings import EncoderSettings, FrozenCnnSettings
from regard.settings import Settings
from regard.types import AttentionHook, Features, Memory, Padded, Pixels, Regions


class CaptionTransformerSettings(Settings):
    """A Transformer whose source is a picture."""

    family: Literal["caption-transformer"] = "caption-transformer"
    """The model family."""
    encoder: EncoderSettings = Field(default=FrozenCnnSettings(), discriminator="kind")
    """The CNN that encodes the picture."""
    transformer: TransformerSettings = TransformerSettings(
        encoder_layers=1, decoder_layers=3, width=512, feed_forward=2048, embeddings="target"
    )
    """Layers over the regions, and layers of the decoder; `embeddings` are `target` or
    `separate`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.transformer.embeddings in ("shared", "inputs"):
            raise ValueError("a picture has no tokens that could share embeddings with the caption")
        return self

    @property
    def width(self) -> int:
        """The width of all vectors between layers."""
        return self.transformer.width


class CaptionTransformer(CaptionModel[TransformerState]):
    """The Transformer of `models/translation`, with regions a_i in place of source tokens:

        x_i = W a_i + b,   plus the position encoding of region i, row by row

    then its encoder, in which regions attend to each other, and its decoder.
    """

    def __init__(self, settings: CaptionTransformerSettings, vocabulary: int) -> None:
        super().__init__()
        self.encoder = settings.encoder.build()
        self.project = nn.Linear(self.encoder.width, settings.width)
        xavier_linears(self.project)
        self.transformer = Transformer(settings.transformer, 0, vocabulary)
        self.max_length = self.transformer.max_length

    @property
    def grid(self) -> tuple[int, int]:
        return self.encoder.grid

    def named_rows(self) -> Mapping[str, str]:
        return {f"transformer.{name}": kind for name, kind in self.transformer.named_rows().items()}

    def encode(self, inputs: Pixels | Regions, *, hook: AttentionHook | None = None) -> Memory:
        x = self.project(self.encoder(inputs.values))  # (B, S, D)
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
        return self.transformer.encode_vectors(x, real, hook)

    def decode(
        self, given: Padded, memory: Memory, *, hook: AttentionHook | None = None
    ) -> Features:
        return self.transformer.decode(given, memory, hook=hook)

    def start(self, memory: Memory) -> TransformerState:
        return self.transformer.start(memory)

    def step(
        self, tokens: Tensor, state: TransformerState, *, hook: AttentionHook | None = None
    ) -> tuple[Tensor, TransformerState]:
        return self.transformer.step(tokens, state, hook=hook)

    def to_static(
        self, state: TransformerState, steps: int, step_counter: Tensor
    ) -> TransformerState | None:
        return self.transformer.to_static(state, steps, step_counter)

    def logits(self, features: Tensor) -> Tensor:
        return self.transformer.logits(features)

    def output_layer(self) -> OutputProjection:
        return self.transformer.output_layer()
