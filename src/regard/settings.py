"""The one base of all settings: frozen, strict, and described by its own docstrings."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_NUMBER, _WHOLE, _SWITCH = "must be a number", "must be a whole number", "must be true or false"
_GROUP, _LIST = "must be a group of named values", "must be a list"
_EXPECTED: Mapping[str, str] = {
    "string_type": "must be a text",
    "bytes_type": "must be a file",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": _SWITCH,
    "bool_parsing": _SWITCH,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _GROUP,
    "model_type": _GROUP,
    "model_attributes_type": _GROUP,
    "dataclass_type": _GROUP,
    "invalid_key": "must be a text, as every key",
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
    "json_invalid": "is no JSON",
    "value_error": "{error}",
}
"""What was expected, in our words, by pydantic's names of mistakes."""
_BRIEF = 40
"""Characters of a value that is told whole."""
_SHOWN = 200
"""Characters of a longer text that is told in part."""


Layers = Annotated[int, Field(ge=1, le=1000)]
"""How often a layer is stacked. Limits are far above what anybody trains: a recipe that asks for
more is a mistake, or an attack on the memory of the machine."""
Width = Annotated[int, Field(ge=1, le=65_536)]
"""Of a vector inside a model."""
Reach = Annotated[int, Field(ge=1, le=1 << 20)]
"""Positions of a sentence."""


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


def expectation(mistake: "ErrorDetails") -> str:
    """What a value should have been that pydantic found fault with, in our words."""
    words = _EXPECTED.get(mistake["type"], mistake["msg"])
    return words.format_map(mistake.get("ctx", {})) if mistake["type"] in _EXPECTED else words


def describe(value: object) -> str:
    """What was found in the place of something else, in a few words."""
    if isinstance(value, Mapping):
        return "a group of named values"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    shown = repr(value)
    return shown if len(shown) <= _BRIEF else f"a text of {len(str(value)):,} characters"


def abbreviate(text: str) -> str:
    """`text` in one line, and its beginning where it is long: fit to be part of a message."""
    cut = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text):,} characters)"
    return " ".join(cut.splitlines())
