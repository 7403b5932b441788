"""Settings of tokenizers."""

from typing import Annotated, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from regard.settings import Settings, Spelling
from regard.text.special_tokens import SPECIAL_PIECES

Form = Literal["none", "nfc", "nfkc"]
Symbol = Annotated[
    str, Spelling("<[a-z0-9]+>", "must be small letters of a to z and digits between < and >")
]

SUBWORD_KINDS = ("bpe", "unigram")
IMPORTED_KINDS = ("huggingface", "sentencepiece")
FILE_KINDS = (*SUBWORD_KINDS, *IMPORTED_KINDS)
"""Kinds of tokenizers whose content is a file beside their card."""
SUBWORD_ONLY = ("byte_fallback", "byte_level", "character_coverage", "sampling")
VOCAB_ONLY = ("min_count",)


class TokenizerSettings(Settings):
    """One tokenizer: what its pieces are and how they are learned."""

    kind: Literal[
        "bpe", "unigram", "words", "whitespace", "characters", "huggingface", "sentencepiece"
    ] = "bpe"
    """What a piece is: `bpe` and `unigram` split words into learned subwords and can spell any
    text; `words` (for scripts with spaces), `characters` and `whitespace` know only the pieces of
    the training text. `whitespace` is for text that is tokenised already: it splits at white space
    only, and reads `<unk>` as the unknown token. `huggingface` and `sentencepiece` are those of
    imported models, and are not learned."""
    size: int = Field(default=8000, ge=0, le=1_000_000)
    """Pieces in the vocabulary, the four special ones included; a small corpus may give fewer. For
    `words`, `whitespace` and `characters` the most frequent are kept, and 0 keeps all."""
    form: Form = "nfc"
    """Unicode normalisation of the text: `nfc` gives é one spelling; `nfkc` also turns ﬁ into fi, ²
    into 2 and full-width letters into plain ones; `none` leaves the text unchanged."""
    lowercase: bool = False
    """Convert the text to lower case; outputs are then in lower case too."""
    byte_fallback: bool = True
    """Spell characters that the vocabulary lacks as UTF-8 bytes instead of as the unknown token;
    256 of its pieces are these bytes. For `bpe` and `unigram`."""
    byte_level: bool = False
    """Learn subwords of the UTF-8 bytes of the text, as GPT-2 does (Radford et al. 2019), instead
    of its characters: a piece may be part of a character, and no text is unknown. For `bpe`."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 0.9999
    """Share of the training text whose characters get their own pieces; the rarest characters are
    spelled as bytes, or are unknown without `byte_fallback`. For `bpe` and `unigram`."""
    sampling: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Segment training text at random, differently each time; 0: always in the same way. For `bpe`,
    the probability of dropping a merge (BPE-dropout; usually 0.1; higher is more random). For
    `unigram`, the power to which the probabilities of segmentations are raised (usually 0.1 or 0.2;
    *lower* is more random)."""
    min_count: PositiveInt = 1
    """How often a piece must occur in the training text to enter the vocabulary. For `words`,
    `whitespace` and `characters`."""
    symbols: tuple[Symbol, ...] = ()
    """Words that are always one piece, such as `<user>`, after a space or at the beginning of a
    text; they are in the vocabulary even if the training text lacks them."""
    max_training_texts: PositiveInt = 500_000
    """The most texts that the vocabulary is learned from, a random sample of all."""

    @model_validator(mode="after")
    def _refuse_what_cannot_be(self) -> Self:
        subwords = self.kind in SUBWORD_KINDS
        for name in VOCAB_ONLY if subwords else SUBWORD_ONLY:
            value = getattr(self, name)
            if value != type(self).model_fields[name].default:
                raise ValueError(
                    f"{name}: {value} has no effect on kind: {self.kind}; leave it out"
                )
        if self.byte_level:
            self._refuse_beside_byte_level()
        if subwords and self.size == 0:
            raise ValueError(f"size: 0 keeps all pieces, but {self.kind} needs a positive size")
        if len({*self.symbols}) < len(self.symbols):
            raise ValueError(f"symbols: {', '.join(self.symbols)}: one of them is listed twice")
        fixed = len(SPECIAL_PIECES) + len(self.symbols)
        if 0 < self.size <= fixed:
            raise ValueError(
                f"size: {self.size} leaves no room beside the {fixed} special pieces; raise it"
            )
        return self

    def _refuse_beside_byte_level(self) -> None:
        if self.kind != "bpe":
            raise ValueError(f"byte_level: true has no effect on kind: {self.kind}; leave it out")
        if self.sampling:
            raise ValueError(
                f"sampling: {self.sampling} excludes byte_level: true; set only one of them"
            )
        if self.symbols:
            raise ValueError("symbols exclude byte_level: true; set only one of them")
        fields = type(self).model_fields
        for name in ("byte_fallback", "character_coverage"):
            if getattr(self, name) != fields[name].default:
                raise ValueError(f"{name} has no effect with byte_level: true; leave it out")


class TextSettings(Settings):
    """The tokenizers of both sides."""

    source: TokenizerSettings = TokenizerSettings()
    target: TokenizerSettings | None = None
    """The tokenizer of the target; null: the same settings as the source."""
    joint: bool = True
    """Learn one vocabulary from both sides, so that names and numbers have the same pieces on both
    and the embeddings can be shared."""

    @model_validator(mode="after")
    def _refuse_two_in_one(self) -> Self:
        if self.joint and self.target not in (None, self.source):
            raise ValueError(
                "joint: true makes one vocabulary for both sides, but target differs from source; "
                "leave target out, or set joint: false"
            )
        return self

    @property
    def sampling(self) -> float:
        """The larger `sampling` of the two sides; 0 if neither is sampled."""
        return max(self.source.sampling, self.target.sampling if self.target else 0.0)
