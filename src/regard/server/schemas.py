"""The fields of requests and responses; those of translations and files are LibreTranslate's."""

from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeInt,
    PositiveInt,
    Tag,
)

from regard.inspection.interventions import InterventionRequestJson
from regard.pipelines.viewer_document import ViewerDocument
from regard.server.language_detection import LanguageGuess

MAX_CHANGES = 64  # interventions in one request
MAX_DIGITS = 9  # digits of a number that is sent as a string


def parse_number(value: Any) -> Any:
    """The number in a string of digits, as some programs send it; other values unchanged."""
    if not isinstance(value, str) or len(value) > MAX_DIGITS:
        return value
    return int(value) if value.isascii() and value.isdecimal() else value


NonNegativeCount = Annotated[NonNegativeInt, BeforeValidator(parse_number)]
Format = Annotated[
    Literal["text", "html"], BeforeValidator(lambda value: "text" if value in (None, "") else value)
]
Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1)]
OneOrMore = Annotated[
    Annotated[Text, Tag("text")] | Annotated[Texts, Tag("texts")],
    Discriminator(lambda value: "texts" if isinstance(value, list) else "text"),
]
UNION_TAGS = frozenset(
    ["text", "texts", "silence", "flatten", "force", "constrained-int", "constrained-str"]
)
"""Parts of pydantic's error locations that name a member of a union, not a field."""
Source = Annotated[str, Field(description="The code of its language; auto finds out.")]
Target = Annotated[str, Field(description="The code of the language to translate into.")]


class ApiModel(BaseModel):
    """A model whose fields are described by the docstrings below them."""

    model_config = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False)


class KeyedRequest(ApiModel):
    """A request that a key may come with."""

    api_key: str | None = None
    """A key, where the server asks for one; `Authorization: Bearer KEY` does as well."""


class TranslateRequest(KeyedRequest):
    """Something to translate."""

    q: OneOrMore
    """The text, or several. Its lines are translated one by one and stay lines."""
    source: Source
    target: Target
    format: Format = "text"
    """html keeps the markup, and translates what stands between it."""
    alternatives: NonNegativeCount = 0
    """Other translations wanted besides the best; none for html."""


class StreamRequest(KeyedRequest):
    """A text whose translation is to be sent while it is made."""

    q: Text
    """The text."""
    source: Source
    target: Target
    alternatives: NonNegativeCount = 0
    """Other translations wanted besides the best."""


class DetectRequest(KeyedRequest):
    """A text whose language is wanted."""

    q: Text
    """The text."""


class SuggestRequest(KeyedRequest):
    """A better translation; this server takes none."""

    q: str
    """The text."""
    s: str
    """Its translation."""
    source: str
    """The code of the text's language."""
    target: str
    """The code of the translation's."""


class AttentionRequest(KeyedRequest):
    """A text, of which a sentence is to be translated and looked into."""

    q: Text
    """The text."""
    sentence: NonNegativeCount = 0
    """Which of its sentences, counted from 0 as /translate cuts the text into them."""
    source: Source
    target: Target
    changes: list[InterventionRequestJson] = Field(default=[], max_length=MAX_CHANGES)
    """What to change in the model's attention."""
    beam: Annotated[PositiveInt, BeforeValidator(parse_number)] | None = None
    """Hypotheses kept at each step; otherwise as the model's recipe says."""
    alternatives: NonNegativeCount = 0
    """Other translations wanted besides the best."""
    tree: bool = False
    """Whether all hypotheses of the search are wanted, too."""


class AlignRequest(KeyedRequest):
    """Texts and their translations, to be aligned word by word."""

    q: OneOrMore
    """The text, or several."""
    translation: OneOrMore
    """Its translation, or as many."""
    source: str
    """The code of the text's language."""
    target: str
    """The code of the translation's."""


class FileRequest(KeyedRequest):
    """A file to translate."""

    file: bytes = Field(json_schema_extra={"format": "binary"})
    """Its content, in UTF-8; the end of its name says what kind it is of."""
    source: Source
    target: Target


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


class Example(ApiModel):
    """A sentence to begin with, and the model that it is for."""

    source: str
    target: str
    text: str


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
    examples: list[Example]  # ours
    """Sentences that a page may offer: of runs on public corpora alone."""


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
