"""Every setting as a page of Markdown, from the settings classes themselves."""

import json
import re
from collections.abc import Iterator
from typing import Any

from regard.decoding.settings import RuleSettings
from regard.recipes.auto_settings import (
    AUTO_CLEANING,
    AUTO_LIMITS,
    AUTO_MODEL,
    AUTO_SETTINGS,
    RESIZABLE_FAMILIES,
    get_setting,
)
from regard.recipes.recipe import Recipe

Raw = dict[str, Any]

HEADER = """# Settings

Every setting of a recipe, as `regard recipes settings` prints it; `regard recipes schema` prints
the same as a JSON schema, for editors.

Where a setting may say `auto`, training chooses its value from the training pairs and the machine,
says what it chose and why, and keeps it: the run's `recipe.yaml` holds the value, and `--resume`
never chooses anew. What is given is kept as it is, and the rest is chosen to go with it. The recipe
`own`, which files of one's own are trained with, leaves sizes and steps to this; `regard doctor`
shows what would be chosen.
"""


def explain_settings() -> str:
    """A section for each group of settings: names, defaults and meanings."""
    schema = Recipe.model_json_schema()
    return "\n".join([HEADER, *_group(schema, "", schema, set())])


def _group(schema: Raw, path: str, node: Raw, done: set[str]) -> Iterator[str]:
    """The table of a group, then the groups inside it; a group that comes twice is told once."""
    title = node["title"]
    if title in done:
        return
    done.add(title)
    yield f"## {path or 'recipe'}\n\n{_text(node)}\n"
    yield "| setting | default | meaning |\n|---|---|---|"
    inner: list[tuple[str, Raw]] = []
    for name, field in node["properties"].items():
        place = f"{path}.{name}" if path else name
        groups = list(_groups(schema, field))
        inner += [(place, group) for group in groups]
        meaning = _text(field) or " ".join(_text(group) for group in groups[:1])
        default, meaning = _with_auto(place, _default(field, groups), meaning)
        yield f"| `{name}` | {default} | {_choices(schema, field)}{meaning} |"
    yield ""
    for place, group in inner:
        family = group["properties"].get("family", {}).get("const")
        yield from _group(schema, f"{place} ({family})" if family else place, group, done)


def _groups(schema: Raw, field: Raw) -> Iterator[Raw]:
    """The settings classes that a field may hold."""
    if "$ref" in field:
        found = schema["$defs"][field["$ref"].rsplit("/", 1)[1]]
        if "properties" in found:
            yield found
    inner = [*field.get("anyOf", []), *field.get("oneOf", [])]
    for option in [*inner, field["items"]] if isinstance(field.get("items"), dict) else inner:
        yield from _groups(schema, option)


def _text(node: Raw) -> str:
    return " ".join(node.get("description", "").split()).replace("|", "\\|")


def _default(field: Raw, groups: list[Raw]) -> str:
    if groups and field.get("default") is not None:
        return "see below"
    if "default" not in field:
        return "required" if not groups else "see below"
    return f"`{json.dumps(field['default'], ensure_ascii=False)}`"


def _with_auto(place: str, default: str, meaning: str) -> tuple[str, str]:
    """The default and the meaning of a setting, with what `auto` is for where it may say that."""
    plain = re.sub(r" \([^)]*\)", "", place)
    if plain == "model.preset":
        return default, f"{meaning} `auto`: each size that is not given is chosen as if it said so."
    if plain not in AUTO_SETTINGS or (
        plain in AUTO_MODEL and not re.search("|".join(RESIZABLE_FAMILIES), place)
    ):
        return default, meaning
    if plain in AUTO_LIMITS:
        default = "`auto`"
        meaning += " `auto`: what the targets of the training pairs need, and the usual"
        meaning += f" {get_setting(RuleSettings(), plain.rpartition('.')[2]):g} at the least."
    elif plain in AUTO_CLEANING:
        usual, default = default, "`auto`"
        meaning += (
            f" `auto`: by what the corpus is like, for files of one's own; {usual} otherwise."
        )
    else:
        meaning += " `auto`: chosen by the training pairs and the machine."
    return default, meaning


def _choices(schema: Raw, field: Raw) -> str:
    """The values that a field may take, where they can be counted."""
    for option in (field, *field.get("anyOf", [])):
        if "enum" in option:
            return "One of " + ", ".join(f"`{value}`" for value in option["enum"]) + ". "
    return ""
