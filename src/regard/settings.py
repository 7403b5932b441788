"""The base class of all settings: frozen, strict, and described by field docstrings."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic_core import core_schema

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_NUMBER, _INTEGER, _BOOLEAN = "must be a number", "must be a whole number", "must be true or false"
_MAPPING, _LIST = "must be a group of named values", "must be a list"
_EXPECTED: Mapping[str, str] = {
    "string_type": "must be a text",
    "bytes_type": "must be a file",
    "int_type": _INTEGER,
    "int_parsing": _INTEGER,
    "int_from_float": _INTEGER,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": _BOOLEAN,
    "bool_parsing": _BOOLEAN,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _MAPPING,
    "model_type": _MAPPING,
    "model_attributes_type": _MAPPING,
    "dataclass_type": _MAPPING,
    "invalid_key": "must be a text, like every key",
    "greater_than": "must be more than {gt}",
    "greater_than_equal": "must be at least {ge}",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be at most {le}",
    "string_too_short": "must have {min_length} characters or more",
    "string_too_long": "must have {max_length} characters or fewer",
    "too_short": "must hold {min_length} or more",
    "too_long": "must hold {max_length} or fewer",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must have as {discriminator} one of {expected_tags}",
    "union_tag_not_found": "must have {discriminator}",
    "extra_forbidden": "is not known",
    "missing": "is missing",
    "json_invalid": "is not JSON",
    "value_error": "{error}",
}
"""Pydantic's names of mistakes -> what was expected, in the words of our messages."""
AUTO = "auto"  # a setting whose value training chooses
_MAX_REPR = 40  # characters of a value that messages show whole
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_MAX_TEXT = 200  # characters of a longer text that messages show
_MAX_INTEGER = 2**63 - 1  # what counters, seeds and tensors hold


NumLayers = Annotated[int, Field(ge=1, le=1000)]  # stacked; more is a mistake or an attack
Width = Annotated[int, Field(ge=1, le=65_536)]  # of a vector inside a model
NumPositions = Annotated[int, Field(ge=1, le=1 << 20)]  # positions of a sentence


class Spelling(NamedTuple):
    """A pattern that a text must match, and the words in which an error states it, for
    `Annotated[str, Spelling(pattern, words)]`.
    """

    pattern: str
    words: str

    def _check(self, text: str) -> str:
        if re.fullmatch(self.pattern, text) is None:
            raise ValueError(self.words)
        return text

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(self._check, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        return {**handler(schema), "pattern": f"^{self.pattern}$"}


Name = Annotated[
    str,
    Spelling(
        r"(?!\.{1,2}$)[^/\x00-\x1f\x7f]{1,200}",
        "must be a name, of which files are named: without /, and not . or ..",
    ),
]


class Settings(BaseModel):
    """A group of settings, written beside the code that they set; recipes only nest such classes.

    Each default is written once, in the class. A docstring below a field is its description in
    `--help`, in the JSON schema and in the docs.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        protected_namespaces=(),
        allow_inf_nan=False,
    )

    @field_validator("*")
    @classmethod
    def _check_integer(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) > _MAX_INTEGER:
            raise ValueError(f"must be at most {_MAX_INTEGER:,}")
        return value


def expectation(error: "ErrorDetails") -> str:
    """What pydantic expected in place of a wrong value, in the words of our messages."""
    words = _EXPECTED.get(error["type"], error["msg"])
    return words.format_map(error.get("ctx", {})) if error["type"] in _EXPECTED else words


def describe(value: object) -> str:
    """A value that was not expected, in a few words; null, true and false as in JSON and YAML."""
    if isinstance(value, Mapping):
        return "a group of named values"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    shown = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return shown if len(shown) <= _MAX_REPR else f"a text of {len(str(value)):,} characters"


def counted(number: int, noun: str) -> str:
    """A number of things, such as `1 picture` or `2,000 pictures`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_times(number: float) -> str:
    """How often something happens: 1,000 or, below ten, 2.5."""
    return f"{number:,.{int(number < 9.95)}f}"


def abbreviate(text: str) -> str:
    """`text` in one line, cut off if it is long, for a message."""
    cut = text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}… ({len(text):,} characters)"
    return escape_control(" ".join(cut.splitlines()))


def quoted(word: object) -> str:
    """A path or another word for a shell, so that a command in a message can be copied."""
    return shlex.quote(str(word))


def escape_control(text: str, kept: str = "") -> str:
    r"""`text` with control characters, which would affect a terminal or break columns, escaped as
    in Python, such as `\t` and `\x1b`; those in `kept` are left.
    """
    return _CONTROL.sub(lambda one: one[0] if one[0] in kept else repr(one[0])[1:-1], text)


class SettingChoice(NamedTuple):
    """A value chosen for a setting that was `auto`."""

    setting: str  # its dotted name
    value: Any
    reason: str  # why, in one sentence without its full stop; empty for a default
