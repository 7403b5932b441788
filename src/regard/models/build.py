"""Settings -> model, by a plain table."""

from typing import Annotated, Any, NamedTuple, Protocol

from pydantic import Field

from regard.errors import SettingsError
from regard.models.contracts import AnyModel
from regard.models.translation.bytenet import ByteNet, ByteNetSettings
from regard.models.translation.convs2s import ConvS2S, ConvS2SSettings
from regard.models.translation.deep_att import DeepAtt, DeepAttSettings
from regard.models.translation.feedback import Feedback, FeedbackSettings
from regard.models.translation.gnmt import Gnmt, GnmtSettings
from regard.models.translation.luong import Luong, LuongSettings
from regard.models.translation.moe import Moe, MoeSettings
from regard.models.translation.rnn import RnnEncoderDecoder, RnnSettings
from regard.models.translation.rnnsearch import RnnSearch, RnnSearchSettings
from regard.models.translation.transformer import Transformer, TransformerSettings
from regard.models.translation.transformer_settings import StackSettings
from regard.settings import Settings

ModelSettings = Annotated[
    RnnSettings
    | RnnSearchSettings
    | LuongSettings
    | DeepAttSettings
    | GnmtSettings
    | ByteNetSettings
    | MoeSettings
    | ConvS2SSettings
    | TransformerSettings
    | FeedbackSettings,
    Field(discriminator="family"),
]
"""The settings of whichever family; `family` says which."""


class ModelConstructor(Protocol):
    """A model's class, as a function of its settings and of the sizes of its vocabularies."""

    def __call__(self, settings: Any, source_size: int, target_size: int, /) -> AnyModel: ...


class Family(NamedTuple):
    """How a kind of model is set and made."""

    settings: type[Settings]
    construct: ModelConstructor


FAMILIES: dict[str, Family] = {
    "rnn": Family(RnnSettings, RnnEncoderDecoder),
    "rnnsearch": Family(RnnSearchSettings, RnnSearch),
    "luong": Family(LuongSettings, Luong),
    "deep-att": Family(DeepAttSettings, DeepAtt),
    "gnmt": Family(GnmtSettings, Gnmt),
    "bytenet": Family(ByteNetSettings, ByteNet),
    "moe": Family(MoeSettings, Moe),
    "convs2s": Family(ConvS2SSettings, ConvS2S),
    "transformer": Family(TransformerSettings, Transformer),
    "feedback": Family(FeedbackSettings, Feedback),
}
"""Every family, in the order of their years."""


def build_model(
    settings: ModelSettings, source_size: int, target_size: int, *, joint: bool
) -> AnyModel:
    """A fresh model, its weights drawn from torch's generator: the same seed, the same model.

    `joint` says whether source and target have one vocabulary.
    """
    if joint and source_size != target_size:
        raise ValueError(f"a joint vocabulary has one size, got {source_size=} {target_size=}")
    shared = isinstance(settings, StackSettings) and settings.embeddings == "shared"
    if shared and not joint:
        raise SettingsError(
            f"embeddings 'shared' needs one vocabulary for both languages, but there are two, of "
            f"{source_size} and {target_size} tokens; make the vocabulary joint, or set the "
            "model's embeddings to 'target'"
        )
    return FAMILIES[settings.family].construct(settings, source_size, target_size)
