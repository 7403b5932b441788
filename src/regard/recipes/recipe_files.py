"""YAML -> `Recipe`; errors name unknown keys and suggest known ones.

`RENAMED_SETTINGS` is the one table of old names of settings.
"""

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
from regard.recipes.auto_settings import UNSET, Raw, get_path, set_values
from regard.recipes.recipe import Recipe
from regard.recipes.settings_reference import groups_at
from regard.settings import abbreviate, expectation
from regard.yaml_files import MAX_NESTING, YamlError, parse_yaml, read_yaml

MAX_ERRORS_SHOWN = 10
"""Errors of one recipe that a message lists."""
RENAMED_SETTINGS: dict[str, str] = {
    "model.experts.chosen": "model.experts.top_k",
}
"""Old name -> new name of every setting that was renamed. Recipes, overrides, run folders and saved
comparisons with an old name are read as if they had the new one. A class that renames one of its
fields needs nothing but a line here."""
OLD_DEFAULTS: dict[str, Any] = {
    "decoding.beam.normalise": "gnmt",
    "decoding.rules.excluded": "lost",
}
"""What runs did that were saved before these settings existed."""


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe in the file `name`, or of that name on the shelf, with `a.b=c` overrides."""
    file = find_recipe(str(name))
    return make_recipe(read_raw(file, where=file.name), overrides, where=file.name)


def read_raw(file: Traversable, *, where: str) -> Raw:
    """The plain values in a recipe's file; messages call it `where`."""
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
    raw = rename_old_settings(raw)
    for override in overrides:
        raw = _override(raw, override)
    try:
        return Recipe.model_validate(raw)
    except ValidationError as error:
        lines = list(islice(_describe_errors(error, raw, where), MAX_ERRORS_SHOWN))
        more = error.error_count() - len(lines)
        rest = [f"{where}: and {more:,} more mistakes"] if more else []
        raise SettingsError("\n".join(lines + rest)) from None


def rename_old_settings(raw: Raw) -> Raw:
    """A recipe's plain values with settings under their present names (`RENAMED_SETTINGS`)."""
    for old, new in RENAMED_SETTINGS.items():
        *outer, name = old.split(".")
        group = get_path(raw, outer)
        if isinstance(group, dict) and name in group and get_path(raw, new.split(".")) is UNSET:
            raw = set_values(raw, {new: group[name], old: UNSET})
    return raw


def fill_old_defaults(raw: Raw) -> Raw:
    """A saved run's plain values with those of settings that did not exist when it was saved.

    A run's recipe is saved with every default, so a missing setting did not exist then.
    """
    for setting, value in OLD_DEFAULTS.items():
        *outer, name = setting.split(".")
        group = get_path(raw, outer)
        if isinstance(group, dict) and name not in group:
            raw = set_values(raw, {setting: value})
    if isinstance(get_path(raw, ("decoding", "sampling")), dict):
        decoding = raw["decoding"]  # the beam has no effect, and holds old defaults
        raw = {**raw, "decoding": {k: v for k, v in decoding.items() if k != "beam"}}
    return raw


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
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    return {f.name.removesuffix(".yaml"): f for f in sorted(files, key=lambda file: file.name)}


def _override(raw: Raw, override: str) -> Raw:
    """`raw` with one `a.b=c` put in; the value is read as YAML."""
    key, equals, value = override.partition("=")
    wrong = f"--set {abbreviate(override)}"
    if not equals or not key or key.count(".") > MAX_NESTING:
        raise SettingsError(f"{wrong}: expected KEY=VALUE, such as training.steps=1000")
    try:
        return set_values(raw, {RENAMED_SETTINGS.get(key, key): parse_yaml(value)})
    except YamlError as error:
        raise SettingsError(
            f"{wrong}: {abbreviate(repr(value))} is not a YAML value: {error}"
        ) from None
    except SettingsError as error:
        raise SettingsError(f"{wrong}: {error}") from None


def _describe_errors(error: ValidationError, raw: Raw, where: str) -> Iterator[str]:
    """A line for each mistake: its key, what was expected and what was given."""
    for mistake in error.errors(include_url=False):
        key = _dotted_key(mistake["loc"], raw)
        match mistake["type"]:
            case "extra_forbidden":
                yield f"{where}: {key}: unknown key; {_suggest_key(mistake['loc'])}"
            case "missing":
                yield f"{where}: {key}: missing"
            case "union_tag_not_found" | "union_tag_invalid":
                yield f"{where}: {key}.family: {_suggest_family(mistake['input'])}"
            case "model_type" | "model_attributes_type":
                given = _type_name(mistake["input"])
                yield f"{where}: {key}: expected a group of settings, got {given}"
            case _:
                value = mistake["input"]
                given = "" if isinstance(value, dict) else f", got {abbreviate(repr(value))}"
                message = expectation(mistake)
                yield f"{where}: {key}: {message}{given}" if key else f"{where}: {message}"


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
    """The known key closest to an unknown one, or all keys of its group."""
    *outer, wrong = location
    schema = Recipe.model_json_schema()
    groups = groups_at(schema, schema, outer)
    known = list(dict.fromkeys(key for group in groups for key in group["properties"]))
    near = difflib.get_close_matches(str(wrong), known, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    for group in groups:
        if nested := _find_nested_key(schema, group, str(wrong)):
            return f"did you mean {'.'.join(nested)!r}?"
    return f"known keys here: {', '.join(known)}"


def _find_nested_key(schema: Raw, group: Raw, wrong: str) -> list[str]:
    """The path to a key of that name in a group inside `group`; empty if there is none."""
    for name, field in group["properties"].items():
        for inner in groups_at(schema, field)[:1]:
            found = wrong in inner["properties"]
            if rest := [wrong] if found else _find_nested_key(schema, inner, wrong):
                return [name, *rest]
    return []


def _suggest_family(model: Mapping[str, Any]) -> str:
    """What is wrong with the family of a model: missing or unknown."""
    known = ", ".join(FAMILIES)
    if "family" not in model:
        return f"missing; there are {known}"
    near = difflib.get_close_matches(str(model["family"]), FAMILIES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {known}"
    return f"unknown, got {abbreviate(repr(model['family']))}; {hint}"


def _type_name(value: object) -> str:
    return "nothing" if value is None else type(value).__name__
