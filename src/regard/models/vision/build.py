"""Settings -> captioner, by a plain table."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from regard.models.contracts import AnyCaptionModel
from regard.models.vision.caption_transformer import CaptionTransformer, CaptionTransformerSettings
from regard.models.vision.show_attend_tell import ShowAttendTell, ShowAttendTellSettings
from regard.settings import Settings

CaptionerSettings = Annotated[
    ShowAttendTellSettings | CaptionTransformerSettings, Field(discriminator="family")
]
"""The settings of any captioner, which `family` names."""


class CaptionerFamily(NamedTuple):
    """A kind of captioner."""

    settings: type[Settings]
    construct: Callable[[Any, int], AnyCaptionModel]  # of settings and the size of the vocabulary


CAPTIONERS: dict[str, CaptionerFamily] = {
    "show-attend-tell": CaptionerFamily(ShowAttendTellSettings, ShowAttendTell),
    "caption-transformer": CaptionerFamily(CaptionTransformerSettings, CaptionTransformer),
}
"""All families, by year of publication."""


def build_captioner(settings: CaptionerSettings, vocabulary: int) -> AnyCaptionModel:
    """A new model, its weights drawn from torch's generator."""
    return CAPTIONERS[settings.family].construct(settings, vocabulary)
