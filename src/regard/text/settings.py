"""How text becomes ids."""

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
    """What a piece is: `bpe` and `unigram` cut words into learned subwords and can spell any text;
    `words` (for scripts with spaces) and `characters` know what the training text held, and so does
    `whitespace`, for text that is tokenised already: each stretch without white space is a piece,
    and `<unk>` the unknown one. `huggingface` and `sentencepiece` are those of imported models, and
    are not learned."""
    size: int = Field(default=8000, ge=0, le=1_000_000)
    """Pieces in the vocabulary, the four special ones included. A small corpus may give fewer. For
    `words`, `whitespace` and `characters` the most frequent are kept, and 0 keeps all."""
    form: Form = "nfc"
    """Unicode form of the text: `nfc` gives é one spelling; `nfkc` also turns ﬁ into fi, ² into 2
    and full-width letters into plain ones; `none` leaves the text alone."""
    lowercase: bool = False
    """Turn all letters into small ones, in the output too."""
    byte_fallback: bool = True
    """Spell characters that the vocabulary lacks as UTF-8 bytes, with 256 pieces of its size,
    rather than as unknown. For `bpe` and `unigram`."""
    byte_level: bool = False
    """Learn the subwords of the bytes of the text in UTF-8, as GPT-2 does (Radford et al. 2019),
    instead of its characters: a piece may be a part of a character, and no text is unknown. For
    `bpe`."""
    character_coverage: Annotated[float, Field(ge=0.98, le=1.0)] = 0.9999
    """Share of the training text whose characters get a piece each; the rarest, beyond it, are
    spelled as bytes, or are unknown without `byte_fallback`. For `bpe` and `unigram`."""
    sampling: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Cut training text at random, anew each time; 0 cuts it the same way always. For `bpe` it is
    the share of merges left out (BPE-dropout; 0.1 is usual, more is wilder). For `unigram` it is
    the power to which the probabilities of the cuts are raised (0.1 or 0.2 are usual, *less* is
    wilder)."""
    min_count: PositiveInt = 1
    """How often a piece must occur to be known. For `words`, `whitespace` and `characters`."""
    symbols: tuple[Symbol, ...] = ()
    """Words that are always one piece, such as `<user>`, where a space or nothing is before them;
    they are in the vocabulary even if the training text lacks them."""
    max_training_texts: PositiveInt = 500_000
    """At most so many texts, picked evenly from all, teach the vocabulary."""

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
            raise ValueError(f"size: 0 keeps all pieces, but {self.kind} needs a size to aim at")
        if len({*self.symbols}) < len(self.symbols):
            raise ValueError(f"symbols: {', '.join(self.symbols)}: one of them is there twice")
        fixed = len(SPECIAL_PIECES) + len(self.symbols)
        if 0 < self.size <= fixed:
            raise ValueError(f"size: {self.size} holds no more than the {fixed} special pieces")
        return self

    def _refuse_beside_byte_level(self) -> None:
        if self.kind != "bpe":
            raise ValueError(f"byte_level: true has no effect on kind: {self.kind}; leave it out")
        if self.sampling:
            raise ValueError(
                f"sampling: {self.sampling} is not for byte_level: true; set one of them alone"
            )
        if self.symbols:
            raise ValueError("symbols are not for byte_level: true; set one of them alone")
        fields = type(self).model_fields
        for name in ("byte_fallback", "character_coverage"):
            if getattr(self, name) != fields[name].default:
                raise ValueError(f"{name} has no effect with byte_level: true; leave it out")


class TextSettings(Settings):
    """The tokenizers of both sides."""

    source: TokenizerSettings = TokenizerSettings()
    target: TokenizerSettings | None = None
    """Left out: as the source."""
    joint: bool = True
    """One vocabulary, learned from both sides, so that names and numbers are the same pieces in
    both and the embeddings can be shared."""

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
        """The stronger sampling of the two sides; 0 where neither is sampled."""
        return max(self.source.sampling, self.target.sampling if self.target else 0.0)
