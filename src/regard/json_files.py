"""JSON files from an untrusted source: read with limits on their size, written strictly."""

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from regard.atomic_io import read_limited
from regard.errors import RunError
from regard.manifest import check_file
from regard.settings import abbreviate, expectation

T = TypeVar("T")


def parse_json(content: bytes | str) -> Any:
    """The value of a JSON text. Raises a `ValueError` if it is not JSON, or nested too deep."""
    return from_json(content, allow_inf_nan=False)


def read_json(path: Path, schema: type[T] | TypeAdapter[T]) -> T:
    """The value in a JSON file, checked by a schema. Raises an `OSError` or a `ValueError`."""
    content = read_limited(path, "json")
    adapter = schema if isinstance(schema, TypeAdapter) else TypeAdapter(schema)
    return adapter.validate_json(content)


def load_json(path: Path, schema: type[T] | TypeAdapter[T], *, advice: str) -> T:
    """The value in a JSON file of a run, checked by the manifest and a schema; errors end with
    `advice`.
    """
    check_file(path)
    try:
        return read_json(path, schema)
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path}: damaged, or of another version of regard: {describe_error(error)}; {advice}"
        ) from None


def describe_error(error: OSError | ValueError) -> str:
    """What was wrong with a file that `read_json` rejected, in a few words."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        return abbreviate(f"{place + ': ' if place else ''}{expectation(first)}")
    return abbreviate(str(error.strerror if isinstance(error, OSError) else error))


def dump_json(value: Any, *, indent: int | None = None) -> str:
    """`value` as standard JSON. Raises a `ValueError` for a number that is not finite."""
    return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
