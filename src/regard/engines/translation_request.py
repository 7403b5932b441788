"""The input and output of an engine: a request, and the n best of tokenized lines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from regard.decoding.settings import DecodingSettings
from regard.types import Hypothesis

if TYPE_CHECKING:  # only passed on: an engine without torch does not use it
    from regard.decoding.tracing.observer import SearchObserver
    from regard.engines.native.attention_capture import AttentionCapture
    from regard.inspection.interventions import Intervention


@dataclass(frozen=True)
class TranslationRequest:
    """The options of a translation: see `Translator`."""

    settings: DecodingSettings
    prefix: str = ""
    forbidden: Sequence[str] = ()
    look: bool = False
    scores: bool = False  # whether queries and keys are recorded too
    changes: "Sequence[Intervention]" = ()
    first: int = 0  # the number of the first line, which seeds its samples
    unknown: Mapping[str, str] | None = None
    observers: "Sequence[SearchObserver]" = ()


class EngineResult(NamedTuple):
    """The translation of a line."""

    parts: list[list[Hypothesis]]  # the n best of each part; empty if there is nothing to translate
    looks: "Sequence[Sequence[AttentionCapture]]" = ()  # the attention of each, if asked for
