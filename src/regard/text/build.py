"""Settings and texts -> tokenizers, and tokenizers -> files and back."""

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from regard.errors import TextError
from regard.files import write_whole
from regard.text.lists import ListTokenizer, train_list
from regard.text.sentencepieces import SentencePieceTokenizer, train_sentencepiece
from regard.text.settings import SUBWORDS, TextSettings, TokenizerSettings
from regard.text.tokenizer import Tokenizer

JOINT, SOURCE, TARGET = "tokenizer", "source", "target"
"""What the files of a joint vocabulary, and of two, are called."""

Texts = Callable[[], Iterable[str]]
"""Texts that can be read again."""


class Tokenizers(NamedTuple):
    """Those of source and target: one object twice where the vocabulary is joint."""

    source: Tokenizer
    target: Tokenizer


def train_tokenizer(texts: Texts, settings: TokenizerSettings) -> Tokenizer:
    """A tokenizer whose vocabulary is learned from `texts`."""
    lessons = thin_out(texts, settings.max_training_texts)
    if settings.kind in SUBWORDS:
        return SentencePieceTokenizer(train_sentencepiece(lessons, settings), settings)
    return ListTokenizer(train_list(lessons, settings), settings)


def thin_out(texts: Texts, most: int) -> Iterator[str]:
    """At most `most` of the texts, evenly spread."""
    total = sum(1 for _ in texts())
    for number, text in enumerate(texts()):
        if total <= most or number * most // total != (number - 1) * most // total:
            yield text


def train_tokenizers(sources: Texts, targets: Texts, settings: TextSettings) -> Tokenizers:
    """The tokenizers of a pair of languages."""
    if settings.joint:
        both = train_tokenizer(lambda: chain(sources(), targets()), settings.source)
        return Tokenizers(both, both)
    source, target = settings.sides
    return Tokenizers(train_tokenizer(sources, source), train_tokenizer(targets, target))


def save_tokenizers(tokenizers: Tokenizers, settings: TextSettings, folder: Path) -> None:
    """Write the tokenizers, each with the settings that it was made with."""
    if tokenizers.source is tokenizers.target:
        _save(tokenizers.source, settings.source, folder, JOINT)
        return
    for tokenizer, side, name in zip(tokenizers, settings.sides, (SOURCE, TARGET), strict=True):
        _save(tokenizer, side, folder, name)


def load_tokenizers(folder: Path) -> Tokenizers:
    """The tokenizers that were saved in a folder."""
    if (folder / f"{JOINT}.json").exists():
        both = load_tokenizer(folder, JOINT)
        return Tokenizers(both, both)
    return Tokenizers(load_tokenizer(folder, SOURCE), load_tokenizer(folder, TARGET))


def _save(tokenizer: Tokenizer, settings: TokenizerSettings, folder: Path, name: str) -> None:
    tokenizer.save(folder, name)
    known = {"settings": settings.model_dump(), "fingerprint": tokenizer.fingerprint()}
    write_whole(folder / f"{name}.json", json.dumps(known, indent=1).encode())


def load_tokenizer(folder: Path, name: str) -> Tokenizer:
    """The tokenizer called `name` in a folder."""
    path = folder / f"{name}.json"
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        settings = TokenizerSettings.model_validate(known["settings"])
        tokenizer = _load(folder, name, settings)
        fingerprint = known["fingerprint"]
    except FileNotFoundError as error:
        raise TextError(f"{error.filename}: no such file: the tokenizer is not whole") from None
    except (ValueError, KeyError, TypeError, ValidationError, RuntimeError, OSError) as error:
        raise TextError(f"{path}: damaged, or not a tokenizer of this version: {error}") from None
    if tokenizer.fingerprint() != fingerprint:
        raise TextError(f"{path}: the vocabulary beside it is not the one it was saved with")
    return tokenizer


def _load(folder: Path, name: str, settings: TokenizerSettings) -> Tokenizer:
    if settings.kind in SUBWORDS:
        return SentencePieceTokenizer((folder / f"{name}.model").read_bytes(), settings)
    content = (folder / f"{name}.vocabulary.json").read_text(encoding="utf-8")
    return ListTokenizer(json.loads(content), settings)
