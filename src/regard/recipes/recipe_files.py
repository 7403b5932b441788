"""YAML -> `Recipe`, refusing what it does not know and saying what it may have meant."""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from regard.errors import SettingsError
from regard.models.build import FAMILIES
from regard.recipes.recipe import Recipe
from regard.settings import abbreviate, expectation
from regard.yaml_files import MAX_NESTING, YamlError, parse_yaml, read_yaml

Raw = dict[str, Any]

MAX_ERRORS_SHOWN = 10
"""Mistakes of one recipe that are told of."""
OLD_DECODING_DEFAULTS: dict[str, Raw] = {
    "beam": {"normalise": "gnmt"},
    "rules": {"excluded": "lost"},
}
"""What held before there were these settings."""


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in the file `name`, or of that name on the shelf, with `a.b=c` overrides."""
    file = find_recipe(str(name))
    return make_recipe(read_raw(file, where=file.name), overrides, where=file.name)


def read_raw(file: Traversable, *, where: str) -> Raw:
    """The plain values that a recipe's file spells; `where` is what messages call it."""
    try:
        raw = read_yaml(file)
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1} is 0x{error.object[error.start]:02x}"
        raise SettingsError(f"{where}: not UTF-8: {byte}") from None
    except OSError as error:
        raise SettingsError(f"{where}: cannot be read: {error.strerror}") from None
    except YamlError as error:
        raise SettingsError(f"{where}: cannot be read as YAML: {error}") from None
    if not isinstance(raw, dict):
        raise SettingsError(f"{where}: a recipe is a mapping of settings, got {_type_name(raw)}")
    return raw


def make_recipe(raw: Raw, overrides: Sequence[str] = (), *, where: str) -> Recipe:
    """The recipe of plain values, with `a.b=c` overrides."""
    for override in overrides:
        raw = _override(raw, override)
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        lines = list(islice(_describe_errors(error, raw, where), MAX_ERRORS_SHOWN))
        more = error.error_count() - len(lines)
        rest = [f"{where}: and {more:,} more mistakes"] if more else []
        raise SettingsError("\n".join(lines + rest)) from None


def fill_old_defaults(raw: Raw) -> Raw:
    """A saved run's plain values, with what a setting that it does not name was when it was saved.

    A run's recipe is written with every default, so that what is missing did not exist then.
    """
    decoding = raw.get("decoding")
    if not isinstance(decoding, dict):
        return raw
    filled = dict(decoding)
    for group, old in OLD_DECODING_DEFAULTS.items():
        if isinstance(decoding.get(group), dict):
            filled[group] = old | decoding[group]
    if decoding.get("sampling") is not None:
        filled.pop("beam", None)  # it plays no part, and says what the defaults were
    return {**raw, "decoding": filled}


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as YAML, every default written out."""
    plain = json.loads(recipe.model_dump_json())
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def find_recipe(name: str) -> Traversable:
    """The file called `name`, or else the recipe of that name on the shelf."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise SettingsError(f"{name}: no such recipe file")
        return path
    shelf = shelf_recipes()
    if name not in shelf:
        near = difflib.get_close_matches(name, shelf, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "`regard recipes` lists them"
        raise SettingsError(f"{name}: no recipe of that name on the shelf; {hint}")
    return shelf[name]


def shelf_recipes() -> dict[str, Traversable]:
    """The recipes that come with the package, by name."""
    folder = resources.files("regard.recipes") / "shelf"
    found = {f.name.removesuffix(".yaml"): f for f in folder.iterdir() if f.name.endswith(".yaml")}
    return dict(sorted(found.items()))


def _override(raw: Raw, override: str) -> Raw:
    """`raw` with one `a.b=c` put in; the value is read as YAML."""
    key, equals, value = override.partition("=")
    if not equals or not key or key.count(".") > MAX_NESTING:
        raise SettingsError(
            f"--set {abbreviate(override)}: expected KEY=VALUE, such as training.steps=1000"
        )
    try:
        parsed = parse_yaml(value)
    except YamlError as error:
        raise SettingsError(
            f"--set {abbreviate(override)}: {abbreviate(repr(value))} is not a YAML value: {error}"
        ) from None
    changed: Raw = _set_path(raw, key.split("."), parsed, override)
    return changed


def _set_path(raw: Any, keys: list[str], value: Any, override: str) -> Any:
    first, *rest = keys
    if isinstance(raw, list):
        return _set_list_item(raw, keys, value, override)
    if not rest:
        return {**raw, first: value}
    inner = raw.get(first) or {}
    if not isinstance(inner, dict | list):
        raise SettingsError(f"--set {abbreviate(override)}: {first} is a single value, not a group")
    return {**raw, first: _set_path(inner, rest, value, override)}


def _set_list_item(items: list[Any], keys: list[str], value: Any, override: str) -> list[Any]:
    """A list with a value put into one of its items, which a number from 0 names."""
    first, *rest = keys
    if not first.isdecimal() or int(first) >= len(items):
        raise SettingsError(
            f"--set {abbreviate(override)}: there is a list of {len(items)} here: name one of them "
            f"by its number, from 0 to {len(items) - 1}, not by {first!r}"
        )
    place = int(first)
    new = _set_path(items[place], rest, value, override) if rest else value
    return [*items[:place], new, *items[place + 1 :]]


def _describe_errors(error: ValidationError, raw: Raw, where: str) -> Iterator[str]:
    """A line for each mistake: where it is, what was found, what was expected."""
    for mistake in error.errors(include_url=False):
        place = _dotted_key(mistake["loc"], raw)
        match mistake["type"]:
            case "extra_forbidden":
                yield f"{where}: {place}: unknown key; {_suggest_key(mistake['loc'])}"
            case "missing":
                yield f"{where}: {place}: missing"
            case "union_tag_not_found" | "union_tag_invalid":
                yield f"{where}: {place}.family: {_suggest_family(mistake['input'])}"
            case "model_type" | "model_attributes_type":
                found = _type_name(mistake["input"])
                yield f"{where}: {place}: expected a group of settings, got {found}"
            case _:
                value = mistake["input"]
                found = "" if isinstance(value, dict) else f", got {abbreviate(repr(value))}"
                message = expectation(mistake)
                yield f"{where}: {place}: {message}{found}" if place else f"{where}: {message}"


def _dotted_key(location: Sequence[int | str], raw: Raw) -> str:
    """The dotted key; pydantic adds the tag of a union, which is no key of the file."""
    return abbreviate(".".join(str(part) for part in _keys(location, raw)))


def _keys(location: Sequence[int | str], raw: Any) -> Iterator[int | str]:
    *outer, last = location or [""]
    for part in outer:
        if isinstance(raw, Mapping) and part not in raw:
            continue
        if isinstance(raw, list):
            if not isinstance(part, int):
                continue
            raw = raw[part]
        else:
            raw = raw[part] if isinstance(raw, Mapping) else None
        yield part
    if not isinstance(raw, int | float | str) or not outer:
        yield last


def _suggest_key(location: Sequence[int | str]) -> str:
    """Which known key an unknown one is close to, or all that there are."""
    *outer, wrong = location
    schema = Recipe.model_json_schema()
    known = _known_keys(schema, schema, list(outer))
    near = difflib.get_close_matches(str(wrong), known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    if deeper := _find_nested_key(schema, list(outer), str(wrong)):
        return f"did you mean {'.'.join(deeper)!r}?"
    return f"known keys here: {', '.join(known)}"


def _find_nested_key(schema: Raw, path: list[int | str], wrong: str) -> list[str]:
    """The keys that lead from `path` down to one of that name; none: there is none."""
    for group in _known_keys(schema, schema, path):
        below = [*path, group]
        known = _known_keys(schema, schema, below)
        rest = [wrong] if wrong in known else _find_nested_key(schema, below, wrong)
        if rest:
            return [group, *rest]
    return []


def _suggest_family(model: Mapping[str, Any]) -> str:
    """What is wrong with the family that a model names, or does not name."""
    known = ", ".join(FAMILIES)
    if "family" not in model:
        return f"missing; there are {known}"
    near = difflib.get_close_matches(str(model["family"]), FAMILIES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {known}"
    return f"unknown, got {abbreviate(repr(model['family']))}; {hint}"


def _known_keys(schema: Raw, node: Raw, path: list[int | str]) -> list[str]:
    """The keys of the group at `path` of a JSON schema."""
    node = _dereference(schema, node)
    if not path and "properties" in node:
        return list(node["properties"])
    first, *rest = path or [""]
    if first in node.get("properties", {}):
        return _known_keys(schema, node["properties"][first], rest)
    tags = node.get("discriminator", {}).get("mapping", {})
    if first in tags:
        return _known_keys(schema, {"$ref": tags[first]}, rest)
    if isinstance(first, int):
        return _known_keys(schema, node.get("items", {}), rest)
    for option in [*node.get("anyOf", []), *(node.get("oneOf", []) if not tags else [])]:
        found = _known_keys(schema, option, path) or (path and _known_keys(schema, option, rest))
        if found:
            return found
    return []


def _dereference(schema: Raw, node: Raw) -> Raw:
    while "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return node


def _type_name(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
