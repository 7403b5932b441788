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

from regard.inspection.interventions import InterventionRequestJson, whole_number
from regard.server.language_detection import LanguageGuess
from regard.tasks.families.viewer_document import ViewerDocument

MAX_CHANGES = 64  # interventions in one request
MAX_DIGITS = 9  # digits of a number that is sent as a string


def parse_number(value: Any) -> Any:
    """The number in a string of digits, as some programs send it; other values unchanged."""
    if not isinstance(value, str) or len(value) > MAX_DIGITS:
        return whole_number(value)
    return int(value) if value.isascii() and value.isdecimal() else value


NonNegativeCount = Annotated[NonNegativeInt, BeforeValidator(parse_number)]
Format = Annotated[
    Literal["text", "html"],
    BeforeValidator(
        lambda value: "text" if value in (None, "") else value,
        json_schema_input_type=Literal["text", "html", ""] | None,
    ),
]
Text = Annotated[str, Field(min_length=1)]
Texts = Annotated[list[str], Field(min_length=1)]
OneOrMore = Annotated[
    Annotated[str, Tag("text")] | Annotated[Texts, Tag("texts")],
    Discriminator(lambda value: "texts" if isinstance(value, list) else "text"),
]
UNION_TAGS = frozenset(
    ["text", "texts", "silence", "flatten", "force", "constrained-int", "constrained-str"]
)
"""Parts of pydantic's error locations that name a member of a union, not a field."""
Source = Annotated[str, Field(description="The code of its language; auto detects it.")]
Target = Annotated[str, Field(description="The code of the language to translate into.")]


class ApiModel(BaseModel):
    """A model whose fields are described by the docstrings below them."""

    model_config = ConfigDict(use_attribute_docstrings=True, allow_inf_nan=False)


class KeyedRequest(ApiModel):
    """A request that may carry an API key."""

    api_key: str | None = None
    """A key, if the server requires one; `Authorization: Bearer KEY` works too."""


class TranslateRequest(KeyedRequest):
    """One text or several to translate."""

    q: OneOrMore
    """The text, or several. Lines are translated one by one and stay lines."""
    source: Source
    target: Target
    format: Format = "text"
    """html: keep the markup and translate the text between the tags."""
    alternatives: NonNegativeCount = 0
    """How many other translations to return besides the best; not for html."""


class StreamRequest(KeyedRequest):
    """A text whose translation is streamed."""

    q: Text
    """The text."""
    source: Source
    target: Target
    alternatives: NonNegativeCount = 0
    """How many other translations to return besides the best."""


class DetectRequest(KeyedRequest):
    """A text whose language is to be detected."""

    q: Text
    """The text."""


class SuggestRequest(KeyedRequest):
    """A suggested translation; this server accepts none."""

    q: str
    """The text."""
    s: str
    """Its translation."""
    source: str
    """The code of the text's language."""
    target: str
    """The code of the translation's language."""


class AttentionRequest(KeyedRequest):
    """A text, and which of its sentences to translate with its attention recorded."""

    q: Text
    """The text."""
    sentence: NonNegativeCount = 0
    """The number of the sentence, from 0, as /translate splits the text."""
    source: Source
    target: Target
    changes: list[InterventionRequestJson] = Field(default=[], max_length=MAX_CHANGES)
    """Changes to the model's attention."""
    beam: Annotated[PositiveInt, BeforeValidator(parse_number)] | None = None
    """Hypotheses kept at each step; by default as in the model's recipe."""
    alternatives: NonNegativeCount = 0
    """How many other translations to return besides the best."""
    tree: bool = False
    """Whether to return all hypotheses of the search, too."""


class AlignRequest(KeyedRequest):
    """Texts and their translations, to be aligned word by word."""

    q: OneOrMore
    """The text, or several."""
    translation: OneOrMore
    """Its translation, or one for each text."""
    source: str
    """The code of the text's language."""
    target: str
    """The code of the translation's language."""


class FileRequest(KeyedRequest):
    """A file to translate."""

    file: bytes = Field(json_schema_extra={"format": "binary"})
    """Its content, in UTF-8; the suffix of its name determines the format."""
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
    """Other translations, the best first, if any were asked for."""
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = None  # noqa: N815
    """The language that `source: auto` detected."""


class SentencePair(ApiModel):
    """A sentence of a text, and its translation."""

    source: str
    target: str


class StreamResult(TranslateResponse):
    """The result at the end of a stream."""

    sentences: list[SentencePair]
    """All translated sentences, in order, without the text between them."""


class SentenceAttention(ViewerDocument):
    """A sentence's document for the viewer; its number, from 0, and the number of sentences."""

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
    """Codes of the languages that it can be translated into."""


class LanguagePair(ApiModel):
    """The languages that a page shows first."""

    source: LanguageName
    target: LanguageName


class Example(ApiModel):
    """An example sentence, and the languages of its model."""

    source: str
    target: str
    text: str


class FrontendSettings(ApiModel):
    """The settings that a page needs; LibreTranslate's names."""

    charLimit: int  # noqa: N815
    """Longest text, in characters."""
    frontendTimeout: int  # noqa: N815
    """Milliseconds to wait after a keystroke."""
    apiKeys: bool  # noqa: N815
    keyRequired: bool  # noqa: N815
    alternativesLimit: int  # noqa: N815  # ours
    """The most alternatives that a request may ask for."""
    suggestions: bool
    filesTranslation: bool  # noqa: N815
    supportedFilesFormat: list[str]  # noqa: N815
    """Suffixes of the files that can be translated."""
    language: LanguagePair
    examples: list[Example]  # ours
    """Sentences that a page may offer, of runs on public corpora only."""


class TranslatedFile(ApiModel):
    """Where a translated file can be fetched for a limited time."""

    translatedFileUrl: str  # noqa: N815


class WordAlignment(ApiModel):
    """Which words are aligned."""

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
    """The state of the server."""

    status: Literal["ok"] = "ok"


class ReadyStatus(ServerStatus):
    """The models that the server is ready to serve."""

    models: list[str]
    """Language pairs."""
    version: str
