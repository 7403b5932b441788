"""Tokenizers from text and from files."""

import hashlib
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from regard.atomic_io import remove_file
from regard.errors import TextError
from regard.iterate import reservoir_sample
from regard.settings import abbreviate
from regard.text.mapped_sentencepiece import load_mapped
from regard.text.sentencepiece_tokenizer import SentencePieceTokenizer
from regard.text.settings import IMPORTED_KINDS, TextSettings, TokenizerSettings
from regard.text.tokenizer import (
    CharacterTokenizer,
    Tokenizer,
    VocabTokenizer,
    WhitespaceTokenizer,
    WordTokenizer,
    load_card,
    normalize,
    read_file,
)

Texts = Callable[[], Iterable[str]]  # each call starts reading at the first text

VOCAB_TOKENIZERS: dict[str, type[VocabTokenizer]] = {
    "words": WordTokenizer,
    "whitespace": WhitespaceTokenizer,
    "characters": CharacterTokenizer,
}

JOINT, SOURCE, TARGET = "tokenizer", "source", "target"


class Tokenizers(NamedTuple):
    """The tokenizers of both sides; the same object if the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer

    @property
    def joint(self) -> bool:
        """Whether an id means the same on both sides, so that they can share embeddings."""
        imported = self.source.vocabulary_map is not None
        return self.source is self.target or (imported and self.source.same_ids(self.target))


def train_tokenizer(texts: Iterable[str], settings: TokenizerSettings) -> Tokenizer:
    """A tokenizer with the vocabulary of `texts`: the same texts make the same tokenizer."""
    if settings.kind in IMPORTED_KINDS:
        raise TextError(
            f"kind: {settings.kind} is the tokenizer of an imported model, which cannot be "
            "learned; start from its run (regard train --from RUN), or choose another kind"
        )
    sampled = _sample(texts, settings)
    normalized = (normalize(text, settings.form, lowercase=settings.lowercase) for text in sampled)
    return VOCAB_TOKENIZERS.get(settings.kind, SentencePieceTokenizer).train(normalized, settings)


def _sample(texts: Iterable[str], settings: TokenizerSettings) -> list[str]:
    """A random sample of the texts that are not blank, to learn a vocabulary from."""
    nonblank = (text for text in texts if text.strip())
    sampled = reservoir_sample(nonblank, settings.max_training_texts)
    if not sampled:
        raise TextError(
            "no text to learn a vocabulary from: there are no texts, or all are blank; "
            "check that the corpus is the right one and that both sides have text"
        )
    return sampled


def train_tokenizers(source: Texts, target: Texts, settings: TextSettings) -> Tokenizers:
    """The tokenizers of both sides, learned from the texts of both."""
    if settings.joint:
        both = train_tokenizer(chain(source(), target()), settings.source)
        return Tokenizers(both, both)
    return Tokenizers(
        train_tokenizer(source(), settings.source),
        train_tokenizer(target(), settings.target or settings.source),
    )


def extend_tokenizer(given: Tokenizer, texts: Iterable[str], count: int) -> Tokenizer:
    """A tokenizer with at most `count` further pieces, learned from `texts`."""
    return given.with_pieces(given.learn_pieces(_sample(texts, given.settings), count))


def extend_tokenizers(given: Tokenizers, source: Texts, target: Texts, count: int) -> Tokenizers:
    """The tokenizers of both sides, with at most `count` further pieces learned from each side;
    tokenizers that share their ids both get all of these.
    """
    if given.source is given.target:
        both = extend_tokenizer(given.source, chain(source(), target()), count)
        return Tokenizers(both, both)
    sides = zip(given, (source, target), strict=True)
    learned = [one.learn_pieces(_sample(texts(), one.settings), count) for one, texts in sides]
    if given.joint:
        shared = {one.piece: one for one in chain.from_iterable(learned)}
        learned = [[*shared.values()]] * 2
    return Tokenizers(*(one.with_pieces(new) for one, new in zip(given, learned, strict=True)))


def save_tokenizers(tokenizers: Tokenizers, folder: Path) -> None:
    """Write one tokenizer or two into `folder`, replacing those already there."""
    if tokenizers.source is tokenizers.target:
        named = {JOINT: tokenizers.source}
    else:
        named = {SOURCE: tokenizers.source, TARGET: tokenizers.target}
    for name, tokenizer in named.items():
        tokenizer.save(folder, name)
    for name in {JOINT, SOURCE, TARGET} - named.keys():
        for ending in ("json", "model"):
            remove_file(folder / f"{name}.{ending}")


def load_tokenizers(folder: Path) -> Tokenizers:
    """The tokenizers that `save_tokenizers` wrote into `folder`."""
    if (folder / f"{SOURCE}.json").exists() and not (folder / f"{JOINT}.json").exists():
        return Tokenizers(load_tokenizer(folder, SOURCE), load_tokenizer(folder, TARGET))
    both = load_tokenizer(folder, JOINT)
    return Tokenizers(both, both)


def load_tokenizer(folder: Path, name: str) -> Tokenizer:
    """The tokenizer that was saved into `folder` under `name`."""
    card = load_card(folder, name)
    if card.pieces is not None:
        return VOCAB_TOKENIZERS[card.settings.kind](card.pieces, card.settings)
    path = folder / f"{name}.model"
    model = read_file(path)
    if hashlib.sha256(model).hexdigest() != card.model_sha256:
        raise TextError(
            f"{path}: damaged, or not the model that {name}.json was saved with; "
            "copy both again or train again"
        )
    if card.vocabulary is not None and card.settings.kind == "sentencepiece":
        return load_mapped(model, card.settings, card.vocabulary, card.opening or ())
    if card.vocabulary is not None:
        from regard.text.hf_tokenizer import HfTokenizer  # `tokenizers` is optional

        return HfTokenizer(model, card.settings, card.vocabulary, card.opening or ())
    try:
        return SentencePieceTokenizer(model, card.settings)
    except (RuntimeError, ValueError) as error:  # from SentencePiece, though the digest matches
        raise TextError(f"{path}: not a SentencePiece model: {abbreviate(str(error))}") from None
