"""The JSON of responses; names in camel case are LibreTranslate's."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from regard.pipelines.viewer_document import ViewerDocument
from regard.server.language_detection import LanguageGuess


class ApiModel(BaseModel):
    """A model whose fields are described by the docstrings below them."""

    model_config = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False)


class ErrorResponse(ApiModel):
    """Why there is no answer."""

    error: str


class DetectedLanguage(ApiModel):
    """A language that a text may be in."""

    confidence: float = Field(ge=0, le=100)
    """In percent."""
    language: str
    """Its code."""

    @classmethod
    def of(cls, guess: LanguageGuess) -> Self:
        """A guess with three significant digits, so that a small confidence is not shown as 0."""
        return cls(confidence=float(f"{guess.confidence:.3g}"), language=guess.language)


class TranslateResponse(ApiModel):
    """A translation, or one for each text."""

    translatedText: str | list[str]  # noqa: N815  # LibreTranslate's name
    alternatives: list[str] | list[list[str]] | None = None
    """Other translations, the better first, if any were asked for."""
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815
    """What `source: auto` was taken for."""


class SentencePair(ApiModel):
    """A sentence as it was cut out of a text, and its translation."""

    source: str
    target: str


class StreamResult(TranslateResponse):
    """What a stream ends in."""

    sentences: list[SentencePair]
    """All that were translated, in order; what stood between them is in none."""


class SentenceAttention(ViewerDocument):
    """What the viewer needs of a sentence, and which one of how many it is, counted from 0."""

    sentence: int
    sentences: int


class LanguageName(ApiModel):
    """A language."""

    code: str
    name: str
    """In English."""


class Language(LanguageName):
    """A language that can be translated from or to."""

    targets: list[str]
    """Codes of the languages it can be translated into."""


class LanguagePair(ApiModel):
    """The languages that a page shows first."""

    source: LanguageName
    target: LanguageName


class FrontendSettings(ApiModel):
    """What a page has to know; LibreTranslate's names."""

    charLimit: int  # noqa: N815
    """Longest text, in characters."""
    frontendTimeout: int  # noqa: N815
    """Milliseconds to wait after a key stroke."""
    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    alternativesLimit: int  # noqa: N815  # ours
    """Most alternatives that may be asked for."""
    suggestions: bool
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    """Ends of the names of files that can be translated."""
    language: LanguagePair


class TranslatedFile(ApiModel):
    """Where a translated file can be fetched, for a while."""

    translatedFileUrl: str  # noqa: N815


class WordAlignment(ApiModel):
    """Which words belong together."""

    links: list[tuple[int, int]]
    """A word of the text and one of the translation, counted from 0."""
    pharaoh: str
    """The same in Pharaoh's format: 0-0 1-2."""
    source_words: list[str]
    target_words: list[str]


class AlignResponse(ApiModel):
    """One for each pair."""

    alignments: list[WordAlignment]


class ServerStatus(ApiModel):
    """How the server is."""

    status: Literal["ok"] = "ok"


class ReadyStatus(ServerStatus):
    """What the server is ready for."""

    models: list[str]
    """Language pairs."""
    version: str
