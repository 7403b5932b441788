"""All settings, from the settings classes: as a page of Markdown and as a JSON schema."""

import json
import re
from collections.abc import Iterator, Sequence

from regard.decoding.settings import RuleSettings
from regard.recipes.auto_settings import (
    AUTO,
    AUTO_CLEANING,
    AUTO_LIMITS,
    AUTO_MODEL,
    AUTO_SETTINGS,
    RESIZABLE_FAMILIES,
    Raw,
    get_setting,
)
from regard.recipes.recipe import Recipe

HEADER = """# Settings

Every setting of a recipe, as `regard recipes settings` prints it; `regard recipes schema` prints
the same as a JSON schema, for editors.

Where a setting may say `auto`, training chooses its value from the training pairs and the machine,
says what it chose and why, and keeps it: the run's `recipe.yaml` holds the value, and `--resume`
never chooses anew. What is given is kept as it is, and the rest is chosen to go with it. The recipe
`own`, which files of one's own are trained with, leaves sizes and steps to this; `regard doctor`
shows what would be chosen.
"""


def groups_at(schema: Raw, node: Raw, keys: Sequence[int | str] = ()) -> list[Raw]:
    """The groups of settings that may be at a path of keys below a node of the JSON schema.

    As in pydantic's errors, a key may also choose an option of a union or an item of a list.
    """
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    properties = node.get("properties", {})
    if not keys and properties:
        return [node]
    if keys and keys[0] in properties:
        return groups_at(schema, properties[keys[0]], keys[1:])
    tags = node.get("discriminator", {}).get("mapping", {})
    if keys and keys[0] in tags:
        return groups_at(schema, {"$ref": tags[keys[0]]}, keys[1:])
    options = [*node.get("anyOf", ()), *node.get("oneOf", ())]
    if isinstance(node.get("items"), dict):
        options.append(node["items"])
    groups = [group for option in options for group in groups_at(schema, option, keys)]
    if not groups and keys:
        groups = [group for option in options for group in groups_at(schema, option, keys[1:])]
    return groups


def recipe_schema() -> Raw:
    """The JSON schema of a recipe, in which settings that may be chosen may be `auto`."""
    schema = Recipe.model_json_schema()
    for setting in (*AUTO_SETTINGS, "model.preset"):
        *outer, name = setting.split(".")
        for group in groups_at(schema, schema, outer):
            if name in group["properties"]:
                field = group["properties"][name]
                about = {key: field[key] for key in ("default", "description") if key in field}
                group["properties"][name] = {"anyOf": [field, {"const": AUTO}], **about}
    return schema


def explain_settings() -> str:
    """A section for each group of settings: names, defaults and meanings."""
    schema = Recipe.model_json_schema()
    return "\n".join([HEADER, *_group(schema, "", schema, set())])


def _group(schema: Raw, path: str, node: Raw, done: set[str]) -> Iterator[str]:
    """The table of a group, then the groups inside it; a group that occurs twice is listed once."""
    title = node["title"]
    if title in done:
        return
    done.add(title)
    yield f"## {path or 'recipe'}\n\n{_text(node)}\n"
    yield "| setting | default | meaning |\n|---|---|---|"
    inner: list[tuple[str, Raw]] = []
    for name, field in node["properties"].items():
        setting = f"{path}.{name}" if path else name
        groups = groups_at(schema, field)
        inner += [(setting, group) for group in groups]
        meaning = _text(field) or " ".join(_text(group) for group in groups[:1])
        default, meaning = _with_auto(setting, _default(field, groups), meaning)
        yield f"| `{name}` | {default} | {_choices(schema, field)}{meaning} |"
    yield ""
    for setting, group in inner:
        family = group["properties"].get("family", {}).get("const")
        yield from _group(schema, f"{setting} ({family})" if family else setting, group, done)


def _text(node: Raw) -> str:
    return " ".join(node.get("description", "").split()).replace("|", "\\|")


def _default(field: Raw, groups: list[Raw]) -> str:
    if groups and field.get("default") is not None:
        return "see below"
    if "default" not in field:
        return "required" if not groups else "see below"
    return f"`{json.dumps(field['default'], ensure_ascii=False)}`"


def _with_auto(setting: str, default: str, meaning: str) -> tuple[str, str]:
    """The default and the meaning of a setting, with what `auto` means where it may be that."""
    plain = re.sub(r" \([^)]*\)", "", setting)
    if plain == "model.preset":
        return default, f"{meaning} `auto`: each size that is not given is chosen as if it said so."
    if plain not in AUTO_SETTINGS or (
        plain in AUTO_MODEL and not re.search("|".join(RESIZABLE_FAMILIES), setting)
    ):
        return default, meaning
    if plain in AUTO_LIMITS:
        usual = get_setting(RuleSettings(), plain.rpartition(".")[2])
        chosen = (
            f"what the targets of the training pairs need, and the usual {usual:g} at the least"
        )
        return "`auto`", f"{meaning} `auto`: {chosen}."
    if plain in AUTO_CLEANING:
        chosen = f"by what the corpus is like, for files of one's own; {default} otherwise"
        return "`auto`", f"{meaning} `auto`: {chosen}."
    return default, f"{meaning} `auto`: chosen by the training pairs and the machine."


def _choices(schema: Raw, field: Raw) -> str:
    """The values that a field may take, where they can be counted."""
    for option in (field, *field.get("anyOf", [])):
        if "enum" in option:
            return "One of " + ", ".join(f"`{value}`" for value in option["enum"]) + ". "
    return ""
