"""Settings -> model, by a plain table."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NamedTuple

from pydantic import Field
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from regard.errors import SettingsError
from regard.models.contracts import AnyGenerator
from regard.models.translation.bytenet import ByteNet, ByteNetSettings
from regard.models.translation.convs2s import ConvS2S, ConvS2SSettings
from regard.models.translation.deep_att import DeepAtt, DeepAttSettings
from regard.models.translation.feedback import Feedback, FeedbackSettings
from regard.models.translation.gnmt import Gnmt, GnmtSettings
from regard.models.translation.luong import Luong, LuongSettings
from regard.models.translation.moe import Moe, MoeSettings
from regard.models.translation.rnn import RnnEncoderDecoder, RnnSettings
from regard.models.translation.rnnsearch import RnnSearch, RnnSearchSettings
from regard.models.translation.transformer import Transformer
from regard.models.translation.transformer_settings import StackSettings, TransformerSettings
from regard.settings import Settings

OUT_OF_MEMORY_MESSAGES = ("can't allocate memory", "Storage size calculation overflowed")
"""torch's error messages for tensors that do not fit in memory, or whose size in bytes
overflows."""


@contextmanager
def parameter_limit(max_parameters: int) -> Iterator[None]:
    """A context in which building a model of more than `max_parameters` raises a `SettingsError`.

    Parameters are counted as modules register them, before their memory is written to; shared ones
    count once per module.
    """
    thread_id, total = threading.get_ident(), 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal total
        if parameter is None or threading.get_ident() != thread_id:  # another thread's model
            return
        total += parameter.numel()
        if total > max_parameters:
            raise SettingsError(f"its model would have more than {max_parameters:,} parameters")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    except RuntimeError as error:
        if not any(message in str(error) for message in OUT_OF_MEMORY_MESSAGES):
            raise
        raise SettingsError("its model is larger than the memory of this machine") from None
    finally:
        handle.remove()


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
"""The settings of any family, which `family` names."""


class Family(NamedTuple):
    """A kind of model."""

    settings: type[Settings]
    construct: Callable[[Any, int, int], AnyGenerator]  # of settings and both vocabularies' sizes


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
"""All families, by year of publication."""


def build_model(
    settings: ModelSettings, source_size: int, target_size: int, *, joint: bool
) -> AnyGenerator:
    """A new model with weights drawn from torch's generator; `joint`: source and target share a
    vocabulary.
    """
    if joint and source_size != target_size:
        raise ValueError(f"a joint vocabulary has one size, got {source_size=} {target_size=}")
    tying = settings.embeddings if isinstance(settings, StackSettings) else None
    if tying in ("shared", "inputs") and not joint:
        raise SettingsError(
            f"embeddings {tying!r} needs one vocabulary for both languages, but there are two, of "
            f"{source_size} and {target_size} tokens; make the vocabulary joint, or set the "
            "model's embeddings to 'target'"
        )
    return FAMILIES[settings.family].construct(settings, source_size, target_size)
