"""The files of a tokenizer: `name.json`, its card, and for subwords `name.model` beside it."""

from pathlib import Path
from typing import Literal, Self

from pydantic import ValidationError, model_validator

from regard.atomic_io import read_limited, write_atomic
from regard.errors import TextError
from regard.json_files import JSON_MAX_BYTES, describe_error
from regard.manifest import check_file
from regard.settings import Settings
from regard.text.settings import TokenizerSettings


class TokenizerCard(Settings):
    """What the card holds."""

    version: Literal[1]
    settings: TokenizerSettings
    pieces: tuple[str, ...] | None = None
    """For words and characters: the vocabulary after the special pieces."""
    model_sha256: str | None = None
    """For subwords: of the file beside the card, so that two that do not match are noticed."""

    @model_validator(mode="after")
    def _refuse_what_no_tokenizer_saves(self) -> Self:
        subwords = self.settings.kind in ("bpe", "unigram")
        if (self.model_sha256 is not None, self.pieces is not None) != (subwords, not subwords):
            wanted = "model_sha256" if subwords else "pieces"
            raise ValueError(f"kind {self.settings.kind} needs {wanted} and nothing else")
        if self.pieces is not None and (
            "" in self.pieces or len({*self.pieces}) < len(self.pieces)
        ):
            raise ValueError("a piece is empty or there twice")
        return self


def save_card(card: TokenizerCard, folder: Path, name: str) -> None:
    """Write `name`.json into `folder`, whole or not at all."""
    text = card.model_dump_json(indent=1, exclude_none=True)
    write_atomic(folder / f"{name}.json", f"{text}\n".encode())


def load_card(folder: Path, name: str) -> TokenizerCard:
    """The card `name`.json in `folder`."""
    path = folder / f"{name}.json"
    try:
        return TokenizerCard.model_validate_json(read_file(path))
    except ValidationError as error:
        raise TextError(
            f"{path}: no tokenizer of this version of regard, or damaged: {describe_error(error)}; "
            "copy or train it again"
        ) from None


def read_file(path: Path) -> bytes:
    """All of a file of a tokenizer, which is what was written."""
    try:
        content = read_limited(path, max_bytes=JSON_MAX_BYTES)
    except FileNotFoundError:
        raise TextError(
            f"{path}: missing; a tokenizer is read from the folder that it was saved into"
        ) from None
    except OSError as error:
        raise TextError(f"{path}: cannot be read: {error.strerror or error}") from None
    check_file(path, content)
    return content
