"""Settings that may be `auto`: which they are, and how chosen values replace them.

Settings classes hold plain values only. Until a value is chosen, a setting that is `auto` holds its
default, and `Recipe.auto` lists its dotted name.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from regard.errors import SettingsError

Raw = dict[str, Any]

UNSET: Final = object()
"""Stands for a setting that is not given; written to a setting, it removes it."""

AUTO = "auto"
AUTO_CLEANING = ("corpus.cleaning.max_ratio", "corpus.cleaning.leaks")
AUTO_TEXT = ("text.source.size",)
MODEL_SIZES = ("encoder_layers", "decoder_layers", "width", "heads", "feed_forward")
"""Sizes that `model.preset: auto` makes `auto`, unless they are given."""
AUTO_MODEL = (*(f"model.{name}" for name in MODEL_SIZES), "model.dropout")
RESIZABLE_FAMILIES = ("transformer", "feedback")
"""Model families that have these sizes."""
AUTO_PLACEHOLDERS = {"model.heads": 1}
"""Values held, in place of the defaults, until others are chosen: one head fits any width."""
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
"""Every setting that may be `auto`."""


class SettingChoice(NamedTuple):
    """A value chosen for a setting that was `auto`."""

    setting: str
    """Its dotted name."""
    value: Any
    reason: str
    """Why, in one sentence without its full stop; empty for a default."""


def format_choices(choices: Iterable[SettingChoice]) -> list[str]:
    """A line for each reason with the values chosen for it; defaults are left out.

    The first setting of each group is written with its group, because several are called `size`.
    """
    by_reason: dict[str, dict[str, list[str]]] = {}
    for setting, value, reason in choices:
        if reason:
            group, _, name = setting.rpartition(".")
            values = by_reason.setdefault(reason, {}).setdefault(group, [])
            values.append(f"{name} {_format_value(value)}")
    lines = []
    for reason, groups in by_reason.items():
        chosen = [f"{group}.{', '.join(values)}" for group, values in groups.items()]
        lines.append(f"{', '.join(chosen)}: {reason}")
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
    """A recipe's plain values without those that are `auto`, and the names of these settings.

    Some settings are `auto` by default; the result names them where they are not given.
    """
    raw = _expand_auto_preset(dict(given))
    allowed = [
        setting
        for setting in AUTO_SETTINGS
        if setting not in AUTO_MODEL or _resizable_model(raw) is not None
    ]
    auto = {setting for setting in allowed if get_path(raw, setting.split(".")) == AUTO}
    raw = set_values(raw, {setting: AUTO_PLACEHOLDERS.get(setting, UNSET) for setting in auto})
    for setting in _auto_by_default(raw):
        if get_path(raw, setting.split(".")) is UNSET:
            auto.add(setting)
    return raw, tuple(setting for setting in AUTO_SETTINGS if setting in auto)


def _expand_auto_preset(raw: Raw) -> Raw:
    """`model.preset: auto` as every size that is not given set to `auto`."""
    model = _resizable_model(raw)
    if model is None or model.get("preset") != AUTO:
        return raw
    rest = {name: value for name, value in model.items() if name != "preset"}
    return {**raw, "model": {**dict.fromkeys(MODEL_SIZES, AUTO), **rest}}


def _resizable_model(raw: Raw) -> Raw | None:
    """The model's plain settings, if its family's sizes can be chosen."""
    model = raw.get("model")
    return model if isinstance(model, dict) and model.get("family") in RESIZABLE_FAMILIES else None


def _auto_by_default(raw: Raw) -> Iterable[str]:
    """Settings that are `auto` unless given: of cleaning, only for a user's own files."""
    corpus = raw.get("corpus")
    own_files = isinstance(corpus, dict) and corpus.get("train") is not None
    return (*(AUTO_CLEANING if own_files else ()), *AUTO_LIMITS, *AUTO_INPUT)


def get_setting(settings: Any, name: str) -> Any:
    """The value of a setting, by its dotted name."""
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


def set_values(raw: Mapping[str, Any], values: Mapping[str, Any]) -> Raw:
    """A recipe's plain values with new ones for some settings, by their dotted names."""
    result = dict(raw)
    for setting, value in values.items():
        result = set_path(result, setting.split("."), value)
    return result


def get_path(raw: Any, keys: Sequence[str]) -> Any:
    """The value at a path of keys; UNSET if one is missing, None below what is no dict."""
    for key in keys:
        if not isinstance(raw, dict):
            return None
        if key not in raw:
            return UNSET
        raw = raw[key]
    return raw


def set_path(raw: Any, keys: Sequence[str], value: Any) -> Any:
    """A copy of nested dicts and lists with another value at a path; numbers index lists."""
    first, *rest = keys
    key: Any = first
    if isinstance(raw, list):
        if not first.isdecimal() or int(first) >= len(raw):
            raise SettingsError(
                f"there is a list of {len(raw)} here: name one of them by its number, from 0 to "
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
