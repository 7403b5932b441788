"""Access by dotted names to plain values in nested groups, as in a YAML file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from regard.errors import SettingsError

Raw = dict[str, Any]

UNSET: Final = object()  # a setting that is not given; writing it removes the setting


def set_values(raw: Mapping[str, Any], values: Mapping[str, Any]) -> Raw:
    """A recipe's plain values with new ones for some settings, by their dotted names."""
    result = dict(raw)
    for setting, value in values.items():
        result = set_path(result, setting.split("."), value)
    return result


def get_path(raw: Any, keys: Sequence[str]) -> Any:
    """The value at a path of keys; UNSET if a key is missing, None inside a value that is not a
    dict.
    """
    for key in keys:
        if not isinstance(raw, dict):
            return None
        if key not in raw:
            return UNSET
        raw = raw[key]
    return raw


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The dotted name and the value of each single setting in a group called `name`, or of the
    setting `name` itself.
    """
    if not isinstance(value, dict) or not value:
        yield name, value
        return
    for key, inner in value.items():
        yield from leaves(f"{name}.{key}", inner)


def set_path(raw: Any, keys: Sequence[str], value: Any) -> Any:
    """A copy of nested dicts and lists with another value at a path; numbers index lists."""
    first, *rest = keys
    key: Any = first
    if isinstance(raw, list):
        if not first.isdecimal() or int(first) >= len(raw):
            raise SettingsError(
                f"this is a list of {len(raw)}: give one of its values by number, from 0 to "
                f"{len(raw) - 1}, not by {first!r}"
            )
        key = int(first)
    copy = raw.copy()
    if rest:
        inner = (raw[key] if isinstance(raw, list) else raw.get(key)) or {}
        if not isinstance(inner, dict | list):
            raise SettingsError(f"{first} is a single value, not a group")
        copy[key] = set_path(inner, rest, value)
    elif value is UNSET:
        del copy[key]
    else:
        copy[key] = value
    return copy
