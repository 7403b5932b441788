"""Settings -> a classifier of pictures, by a plain table."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from regard.models.contracts import PicturePredictor
from regard.models.vision.swin import Swin, SwinSettings
from regard.models.vision.vit import PictureModelSettings, Vit, VitSettings

PictureClassifierSettings = Annotated[VitSettings | SwinSettings, Field(discriminator="family")]
"""The settings of any classifier of pictures, which `family` names."""


class PictureClassifierFamily(NamedTuple):
    """A kind of classifier of pictures."""

    settings: type[PictureModelSettings]
    construct: Callable[[Any, int], PicturePredictor]  # of settings and the number of classes


PICTURE_CLASSIFIERS: dict[str, PictureClassifierFamily] = {
    "vit": PictureClassifierFamily(VitSettings, Vit),
    "swin": PictureClassifierFamily(SwinSettings, Swin),
}
"""All families, by year of publication."""


def build_picture_classifier(settings: PictureClassifierSettings, classes: int) -> PicturePredictor:
    """A new model, its weights drawn from torch's generator."""
    return PICTURE_CLASSIFIERS[settings.family].construct(settings, classes)
