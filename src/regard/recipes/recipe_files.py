"""YAML -> recipe, with errors that suggest known keys; and the reference of all settings."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import islice
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from regard.errors import SettingsError
from regard.nested_values import UNSET, Raw, get_path, set_values
from regard.settings import AUTO, abbreviate, expectation
from regard.tasks.contracts import TaskRecipe
from regard.tasks.registry import DEFAULT_TASK, TASKS, find_task
from regard.yaml_files import MAX_NESTING, YamlError, parse_yaml, read_yaml

MAX_ERRORS_SHOWN = 10  # errors of one recipe that a message lists
RENAMED_SETTINGS: dict[str, str] = {"model.experts.chosen": "model.experts.top_k"}
"""Old name -> new name of each renamed setting; both are accepted in recipes and overrides."""
OLD_DEFAULTS: dict[str, Any] = {
    "decoding.beam.normalise": "gnmt",
    "decoding.rules.excluded": "lost",
    "input.language": None,
}
"""What runs that were saved before these settings existed did."""
REFERENCE_HEADER = """# Settings

Every setting of a recipe, as `regard recipes settings` prints it; `regard recipes schema` prints
the same as a JSON schema, for editors.

If a setting is `auto`, training chooses its value from the training pairs and the machine, and
prints the value and the reason. The run's `recipe.yaml` keeps the value, and `--resume` does not
choose again. Settings that are given are kept, and the others are chosen to fit them. The recipe
`own`, for training on your own files, leaves sizes and steps to `auto`; `regard doctor` shows what
would be chosen. If `steps` is given, all steps are taken: `patience: auto` is then null.
"""


def load_recipe(name: str | Path, overrides: Sequence[str] = ()) -> TaskRecipe:
    """The recipe in the file `name`, or of that name on the shelf, with `a.b=c` overrides."""
    file = find_recipe(str(name))
    return make_recipe(read_raw(file, where=file.name), overrides, where=file.name)


def read_raw(file: Traversable, *, where: str) -> Raw:
    """The plain values in a recipe's file, which messages call `where`."""
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


def make_recipe(raw: Raw, overrides: Sequence[str] = (), *, where: str) -> TaskRecipe:
    """The recipe made from plain values, with `a.b=c` overrides; its `task` decides the class."""
    raw = rename_old_settings(raw)
    for override in overrides:
        raw = _override(raw, override)
    kind = find_task(raw.get("task", DEFAULT_TASK), where).recipe()
    try:
        return kind.model_validate(raw)
    except ValidationError as error:
        lines = list(islice(_describe_errors(error, raw, where, kind), MAX_ERRORS_SHOWN))
        more = error.error_count() - len(lines)
        rest = [f"{where}: and {more:,} more mistakes"] if more else []
        raise SettingsError("\n".join(lines + rest)) from None


def rename_old_settings(raw: Raw) -> Raw:
    """A recipe's plain values with settings under their present names (`RENAMED_SETTINGS`)."""
    for old, new in RENAMED_SETTINGS.items():
        group, name = _group_of(raw, old)
        if group and name in group and get_path(raw, new.split(".")) is UNSET:
            raw = set_values(raw, {new: group[name], old: UNSET})
    return raw


def fill_old_defaults(raw: Raw) -> Raw:
    """A saved run's values with old defaults for settings that did not exist then."""
    for setting, value in OLD_DEFAULTS.items():
        group, name = _group_of(raw, setting)
        if group is not None and name not in group:
            raw = set_values(raw, {setting: value})
    if isinstance(get_path(raw, ("decoding", "sampling")), dict):
        decoding = raw["decoding"]  # the beam has no effect, and holds old defaults
        raw = {**raw, "decoding": {k: v for k, v in decoding.items() if k != "beam"}}
    return raw


def _group_of(raw: Raw, setting: str) -> tuple[Raw | None, str]:
    """The plain values of the group of a setting, if they are a group, and the setting's name."""
    *outer, name = setting.split(".")
    group = get_path(raw, outer)
    return group if isinstance(group, dict) else None, name


def dump_recipe(recipe: TaskRecipe) -> str:
    """The recipe as YAML, with all defaults written out."""
    plain = json.loads(recipe.model_dump_json())
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True)


def find_recipe(name: str) -> Traversable:
    """The file called `name`, or the recipe of that name on the shelf."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise SettingsError(f"{name}: no such recipe file")
        return path
    shelf = shelf_recipes()
    if name not in shelf:
        hint = _suggest(name, shelf, "`regard recipes` lists them")
        raise SettingsError(f"{name}: no recipe of that name on the shelf; {hint}")
    return shelf[name]


def shelf_recipes() -> dict[str, Traversable]:
    """The recipes that come with the package, by name."""
    folder = resources.files("regard.recipes") / "shelf"
    files = [file for file in folder.iterdir() if file.name.endswith(".yaml")]
    return {f.name.removesuffix(".yaml"): f for f in sorted(files, key=lambda file: file.name)}


def parse_override(override: str) -> tuple[str, Any]:
    """The dotted name of a setting and its value in `a.b=c`; the value is read as YAML."""
    key, equals, value = override.partition("=")
    wrong = f"--set {abbreviate(override)}"
    if not equals or not key or key.count(".") > MAX_NESTING:
        raise SettingsError(f"{wrong}: expected KEY=VALUE, such as training.steps=1000")
    try:
        return RENAMED_SETTINGS.get(key, key), parse_yaml(value)
    except YamlError as error:
        raise SettingsError(
            f"{wrong}: {abbreviate(repr(value))} is not a YAML value: {error}"
        ) from None


def _override(raw: Raw, override: str) -> Raw:
    """`raw` with one `a.b=c` applied."""
    name, value = parse_override(override)
    try:
        return set_values(raw, {name: value})
    except SettingsError as error:
        raise SettingsError(f"--set {abbreviate(override)}: {error}") from None


def _suggest(wrong: str, known: Iterable[str], otherwise: str) -> str:
    near = difflib.get_close_matches(wrong, known, n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise


def _describe_errors(
    error: ValidationError, raw: Raw, where: str, kind: type[TaskRecipe]
) -> Iterator[str]:
    """A line for each mistake: its key, what was expected and what was given."""
    for mistake in error.errors(include_url=False):
        key = abbreviate(".".join(map(str, _keys(mistake["loc"], raw))))
        value = mistake["input"]
        match mistake["type"]:
            case "extra_forbidden":
                message = f"unknown key; {_suggest_key(mistake['loc'], kind)}"
            case "missing":
                message = "missing"
            case "union_tag_not_found" | "union_tag_invalid":
                name, message = _suggest_tag(mistake, kind)
                key = f"{key}.{name}"
            case "model_type" | "model_attributes_type":
                message = f"expected a group of settings, got {_type_name(value)}"
            case _:
                given = "" if isinstance(value, dict) else f", got {abbreviate(repr(value))}"
                message = f"{expectation(mistake)}{given}"
        yield f"{where}: {key}: {message}" if key else f"{where}: {message}"


def _keys(location: Sequence[int | str], raw: Any) -> Iterator[int | str]:
    """The keys of an error's location that are in the file; pydantic adds the tags of unions."""
    *outer, last = location or [""]
    for part in outer:
        if (isinstance(raw, Mapping) and part not in raw) or (
            isinstance(raw, list) and not isinstance(part, int)
        ):
            continue
        inner: Any = raw if isinstance(raw, Mapping | list) else {part: None}
        raw = inner[part]
        yield part
    if not isinstance(raw, int | float | str) or not outer:
        yield last


def _suggest_key(location: Sequence[int | str], kind: type[TaskRecipe]) -> str:
    """The known key closest to an unknown one, or all keys of its group."""
    *outer, last = location
    wrong, schema = str(last), kind.model_json_schema()
    groups = groups_at(schema, schema, outer)
    known = list(dict.fromkeys(key for group in groups for key in group["properties"]))
    nested = (_find_nested_key(schema, group, wrong) for group in groups)
    path = next(filter(None, nested), None)
    elsewhere = f"did you mean {'.'.join(path)!r}?" if path else None
    return _suggest(wrong, known, elsewhere or f"known keys here: {', '.join(known)}")


def _find_nested_key(schema: Raw, group: Raw, wrong: str) -> list[str]:
    """The path to a key of that name in a group inside `group`; empty if there is none."""
    for name, field in group["properties"].items():
        for inner in groups_at(schema, field)[:1]:
            found = wrong in inner["properties"]
            if rest := [wrong] if found else _find_nested_key(schema, inner, wrong):
                return [name, *rest]
    return []


def _suggest_tag(mistake: ErrorDetails, kind: type[TaskRecipe]) -> tuple[str, str]:
    """The key that selects one of several groups of settings, such as the `family` of a model, and
    what is wrong with its value: it is missing or unknown.
    """
    name = mistake["ctx"]["discriminator"].strip("'")
    schema = kind.model_json_schema()
    tags = [
        group["properties"][name]["const"] for group in groups_at(schema, schema, mistake["loc"])
    ]
    known = f"there are {', '.join(tags)}"
    if name not in mistake["input"]:
        return name, f"missing; {known}"
    given = mistake["input"][name]
    return name, f"unknown, got {abbreviate(repr(given))}; {_suggest(str(given), tags, known)}"


def _type_name(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


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


def recipe_schema(task: str = DEFAULT_TASK) -> Raw:
    """The JSON schema of a task's recipe, in which settings that may be chosen may be `auto`."""
    kind = find_task(task, "recipe").recipe()
    schema = kind.model_json_schema()
    for setting in kind.auto_settings():
        *outer, name = setting.split(".")
        for group in groups_at(schema, schema, outer):
            if name in group["properties"]:
                field = group["properties"][name]
                about = {key: field[key] for key in ("default", "description") if key in field}
                group["properties"][name] = {"anyOf": [field, {"const": AUTO}], **about}
    return schema


def explain_settings() -> str:
    """A section for each group of settings: names, defaults and meanings."""
    done: set[str] = set()
    lines = [REFERENCE_HEADER]
    shown = {spec.recipe: spec for spec in reversed(TASKS.values())}  # chat's is translation's
    for task in (spec.name for spec in TASKS.values() if shown[spec.recipe] is spec):
        schema = TASKS[task].recipe().model_json_schema()
        if task != DEFAULT_TASK:
            lines.append(f"# Recipes of the task `{task}`\n")
        lines += _group(schema, "", schema, done, task)
    return "\n".join(lines)


def _group(schema: Raw, path: str, node: Raw, done: set[str], task: str) -> Iterator[str]:
    """The table of a group, then the groups inside it; a group that occurs twice is listed once."""
    title = node["title"]
    if title in done:
        return
    done.add(title)
    of_task = "" if task == DEFAULT_TASK else f"{task}: "
    yield f"## {of_task}{path or 'recipe'}\n\n{_text(node)}\n"
    yield "| setting | default | meaning |\n|---|---|---|"
    inner: list[tuple[str, Raw]] = []
    for name, field in node["properties"].items():
        setting = f"{path}.{name}" if path else name
        groups = groups_at(schema, field)
        inner += [(setting, group) for group in groups]
        meaning = _text(field) or " ".join(_text(group) for group in groups[:1])
        default = _default(field, groups)
        default, meaning = TASKS[task].recipe().with_auto(setting, default, meaning)
        yield f"| `{name}` | {default} | {_choices(field)}{meaning} |"
    yield ""
    for setting, group in inner:
        family = group["properties"].get("family", {}).get("const")
        path = f"{setting} ({family})" if family else setting
        yield from _group(schema, path, group, done, task)


def _text(node: Raw) -> str:
    return " ".join(node.get("description", "").split()).replace("|", "\\|")


def _default(field: Raw, groups: list[Raw]) -> str:
    if groups and field.get("default", ...) is not None:
        return "see below"
    if "default" not in field:
        return "required"
    return f"`{json.dumps(field['default'], ensure_ascii=False)}`"


def _choices(field: Raw) -> str:
    """The values that a field may take, if they can be listed."""
    for option in (field, *field.get("anyOf", [])):
        if "enum" in option:
            return "One of " + ", ".join(f"`{value}`" for value in option["enum"]) + ". "
    return ""
