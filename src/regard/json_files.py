"""JSON files from an untrusted source: read with limits on their size, written strictly."""

import json
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from regard.atomic_io import read_limited
from regard.errors import RunError
from regard.manifest import check_file
from regard.settings import abbreviate, expectation

JSON_MAX_BYTES = 64 << 20
"""Bytes of a file that is read."""

ModelT = TypeVar("ModelT", bound=BaseModel)
ValueT = TypeVar("ValueT")


def parse_json(content: bytes | str) -> Any:
    """The value that `content` spells; a `ValueError` for what is no JSON, too deep or too long.

    pydantic's parser: numbers of more than 4,300 digits and more than 200 levels are refused.
    """
    return from_json(content, allow_inf_nan=False)


@overload
def read_json(path: Path, schema: type[ModelT]) -> ModelT: ...
@overload
def read_json(path: Path, schema: TypeAdapter[ValueT]) -> ValueT: ...
def read_json(path: Path, schema: type[ModelT] | TypeAdapter[ValueT]) -> ModelT | ValueT:
    """The value of a `shape` in a file; an `OSError` or a `ValueError` if there is none."""
    content = read_limited(path, max_bytes=JSON_MAX_BYTES)
    if isinstance(schema, TypeAdapter):
        return schema.validate_json(content)
    return schema.model_validate_json(content)


@overload
def load_json(path: Path, schema: type[ModelT], *, advice: str) -> ModelT: ...
@overload
def load_json(path: Path, schema: TypeAdapter[ValueT], *, advice: str) -> ValueT: ...
def load_json(path: Path, schema: type[ModelT] | TypeAdapter[ValueT], *, advice: str) -> object:
    """The value of a `shape` in a file of a run, held against the manifest.

    Where there is none, the error ends with `advice`.
    """
    check_file(path)
    try:
        return read_json(path, schema)
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path}: damaged, or of another version of regard: {describe_error(error)}; {advice}"
        ) from None


def describe_error(error: OSError | ValueError) -> str:
    """What was wrong with a file that `read_json` did not take, in a few words."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        return abbreviate(f"{place + ': ' if place else ''}{expectation(first)}")
    return abbreviate(str(error.strerror if isinstance(error, OSError) else error))


def dump_json(value: Any, *, indent: int | None = None) -> str:
    """`value` as JSON that every reader takes: an infinite number is a `ValueError`."""
    return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
