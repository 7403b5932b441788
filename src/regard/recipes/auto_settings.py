"""Settings of a recipe that say `auto`: which may, which do, and how values take their place.

A settings class holds plain values alone. A recipe that says `auto` somewhere has the default there
meanwhile, and remembers the place: `Recipe.auto`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

Raw = dict[str, Any]

AUTO = "auto"
AUTO_CLEANING = ("corpus.cleaning.max_ratio", "corpus.cleaning.leaks")
AUTO_TEXT = ("text.source.size",)
MODEL_SIZES = ("encoder_layers", "decoder_layers", "width", "heads", "feed_forward")
"""What `model.preset: auto` leaves open, where a model does not name it."""
AUTO_MODEL = (*(f"model.{name}" for name in MODEL_SIZES), "model.dropout")
RESIZABLE_FAMILIES = ("transformer", "feedback")
"""Families of models that have these sizes."""
AUTO_PLACEHOLDERS = {"model.heads": 1}
"""What holds in place of a default until it is chosen: one head goes with any width."""
WARMUP_SETTING = "training.schedule.warmup"
AUTO_TRAINING = (
    "training.steps",
    "training.batch_tokens",
    "training.label_smoothing",
    "training.optimizer.learning_rate",
    WARMUP_SETTING,
    "training.validation.every",
    "training.validation.patience",
    "training.save_every",
)
AUTO_LIMITS = (
    "decoding.rules.max_length",
    "decoding.rules.max_length_ratio",
    "decoding.rules.max_length_offset",
)
AUTO_BEAM = ("decoding.beam.size",)
AUTO_INPUT = ("input.split_sentences", "input.pass_through")
AUTO_SETTINGS = (
    *AUTO_CLEANING,
    *AUTO_TEXT,
    *AUTO_MODEL,
    *AUTO_TRAINING,
    *AUTO_BEAM,
    *AUTO_LIMITS,
    *AUTO_INPUT,
)
"""Every setting that may say `auto` and have a value chosen for it by `resolve`."""


class SettingChoice(NamedTuple):
    """A value that was chosen for a setting."""

    place: str
    """Its dotted name."""
    value: Any
    reason: str
    """Why, in one plain sentence without its full stop; empty for what is usual."""


def format_choices(choices: Iterable[SettingChoice]) -> list[str]:
    """What was chosen and why, a line for each reason; what is usual is not told.

    The first setting of a group is named with it, as `--set` takes it: several are called `size`.
    """
    grouped: dict[str, dict[str, list[str]]] = {}
    for one in (choice for choice in choices if choice.reason):
        group, _, name = one.place.rpartition(".")
        said = f"{name} {_format_value(one.value)}"
        grouped.setdefault(one.reason, {}).setdefault(group, []).append(said)
    lines = []
    for reason, groups in grouped.items():
        told = (f"{group}.{', '.join(said)}" for group, said in groups.items())
        lines.append(f"{', '.join(told)}: {reason}")
    return lines


def _format_value(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case tuple():
            return " ".join(value) or "nothing"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:g}"
    return str(value)


def extract_auto(given: Mapping[str, Any]) -> tuple[Raw, tuple[str, ...]]:
    """Plain values of a recipe without those that say `auto`, and the places of these.

    Places that are open unless something is said there (`_by_default`) are among them.
    """
    raw = _expand_auto_preset(dict(given))
    known = (
        AUTO_SETTINGS
        if _resizable_model(raw)
        else [place for place in AUTO_SETTINGS if place not in AUTO_MODEL]
    )
    said = [place for place in known if _value(raw, place) == AUTO]
    for place in said:
        raw = _update_nested(raw, place.split("."), lambda group, key: group.pop(key))
    raw = set_values(
        raw, {place: value for place, value in AUTO_PLACEHOLDERS.items() if place in said}
    )
    silent = [place for place in _auto_by_default(raw) if _is_unset(raw, place)]
    return raw, tuple(place for place in AUTO_SETTINGS if place in {*said, *silent})


def set_values(raw: Mapping[str, Any], values: Mapping[str, Any]) -> Raw:
    """Plain values of a recipe, with others at some places."""
    result = dict(raw)
    for place, value in values.items():
        result = _update_nested(result, place.split("."), partial(_set, value))
    return result


def get_setting(recipe: Any, place: str) -> Any:
    """The value of a recipe's setting."""
    for name in place.split("."):
        recipe = getattr(recipe, name)
    return recipe


def _expand_auto_preset(raw: Raw) -> Raw:
    """`model.preset: auto` as what it stands for: every size that is not given is `auto`."""
    model = _resizable_model(raw)
    if model is None or model.get("preset") != AUTO:
        return raw
    rest = {name: value for name, value in model.items() if name != "preset"}
    return {**raw, "model": {**dict.fromkeys(MODEL_SIZES, AUTO), **rest}}


def _resizable_model(raw: Raw) -> Raw | None:
    """The model's settings, where it is of a family whose sizes can be chosen."""
    model = raw.get("model")
    return model if isinstance(model, dict) and model.get("family") in RESIZABLE_FAMILIES else None


def _auto_by_default(raw: Raw) -> Iterable[str]:
    """Places that are open where a recipe says nothing: of a named corpus, cleaning is not."""
    corpus = raw.get("corpus")
    own = isinstance(corpus, dict) and corpus.get("train") is not None
    return (*AUTO_CLEANING, *AUTO_LIMITS, *AUTO_INPUT) if own else (*AUTO_LIMITS, *AUTO_INPUT)


def _value(raw: Any, place: str) -> Any:
    for name in place.split("."):
        if not isinstance(raw, dict) or name not in raw:
            return None
        raw = raw[name]
    return raw


def _is_unset(raw: Any, place: str) -> bool:
    """Whether nothing is said at a place: who hands over settings as objects has said all."""
    for name in place.split("."):
        if not isinstance(raw, dict):
            return False
        if name not in raw:
            return True
        raw = raw[name]
    return False


def _update_nested(raw: Raw, keys: list[str], change: Callable[[Raw, str], object]) -> Raw:
    """A copy in which the group that holds the last key was changed."""
    first, *rest = keys
    copy = dict(raw)
    if rest:
        copy[first] = _update_nested(raw.get(first) or {}, rest, change)
    else:
        change(copy, first)
    return copy


def _set(value: Any, group: Raw, key: str) -> None:
    group[key] = value
