"""Settings of the CNN of a captioner."""

from typing import Literal, Self

from pydantic import Field, PositiveInt, model_validator

from regard.layers.efficientnet import PICTURE_SIZE, STAGES, region_shape
from regard.layers.picture_encoder import (
    NORM_GROUPS,
    FrozenRegions,
    PictureEncoder,
    PictureShape,
    SmallCnn,
    layer_widths,
)
from regard.settings import Settings, Width

NUM_BLOCKS = sum(stage.blocks for stage in STAGES)


class FrozenCnnSettings(Settings):
    """EfficientNet-Lite0 pre-trained on ImageNet and frozen; regions are computed once and kept."""

    kind: Literal["efficientnet-lite0"] = "efficientnet-lite0"
    """The kind of CNN."""
    block: int = Field(default=15, ge=0, lt=NUM_BLOCKS)
    """The block, from 0, whose outputs are the regions: 10 gives 14 × 14 of width 112; 15, the
    last, 7 × 7 of width 320."""
    weights: str | None = None
    """Its safetensors file; null: `models/efficientnet-lite0/model.safetensors` in $REGARD_DATA."""

    @property
    def is_frozen(self) -> bool:
        """Whether the encoder's weights come from a file and are not trained."""
        return True

    def picture_shape(self) -> PictureShape:
        """The shape of the model's input for each picture."""
        return PictureShape(*region_shape(self.block))

    def build(self) -> PictureEncoder:
        """The part of the encoder that is inside the model."""
        return FrozenRegions(self.picture_shape())

    @property
    def picture_size(self) -> int:
        """The side, in pixels, to which pictures are scaled."""
        return PICTURE_SIZE


class SmallCnnSettings(Settings):
    """A small CNN that is trained with the rest of the model."""

    kind: Literal["cnn"] = "cnn"
    """The kind of CNN."""
    picture_size: int = Field(default=48, ge=8, le=1024)
    """The side, in pixels, to which pictures are scaled."""
    width: Width = 128
    """Channels of the last layer; each layer has twice as many as the one before it."""
    layers: PositiveInt = 3
    """Number of convolutions, each of which halves height and width."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for width in layer_widths(self.width, self.layers):
            if width == 0 or (width > NORM_GROUPS and width % NORM_GROUPS):
                raise ValueError(
                    f"width {self.width} gives one of the {self.layers} layers {width} channels: "
                    f"each must have 1 to {NORM_GROUPS}, or a multiple of {NORM_GROUPS}"
                )
        return self

    @property
    def is_frozen(self) -> bool:
        """Whether the encoder's weights come from a file and are not trained."""
        return False

    @property
    def weights(self) -> None:
        """Its file of weights: none, as it is trained with the rest of the model."""
        return None

    def picture_shape(self) -> PictureShape:
        """The shape of the model's input for each picture."""
        return PictureShape(self.picture_size, self.picture_size, 3)

    def build(self) -> PictureEncoder:
        """The part of the encoder that is inside the model."""
        return SmallCnn(self.picture_shape(), self.width, self.layers)


EncoderSettings = FrozenCnnSettings | SmallCnnSettings
