"""The settings that may be `auto`, and how chosen values replace them, without torch.

Until it is chosen, an `auto` setting holds its default, and `TranslationRecipe.auto` lists its
dotted name.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.atomic_io import plain_lines
from regard.corpora.corpus import Pair
from regard.corpora.segmentation_statistics import measure_segmentation
from regard.decoding.settings import RuleSettings
from regard.nested_values import UNSET, Raw, get_path, set_values
from regard.settings import AUTO, SettingChoice
from regard.text.segmentation import InputSettings

if TYPE_CHECKING:  # it imports torch
    from regard.tasks.translation.recipe import TranslationRecipe

AUTO_CLEANING = ("corpus.cleaning.max_ratio", "corpus.cleaning.leaks")


class ModelSize(NamedTuple):
    """Settings that `model.preset: auto` makes `auto`, unless they are given."""

    encoder_layers: int
    decoder_layers: int
    width: int
    heads: int
    feed_forward: int


AUTO_MODEL = (*(f"model.{name}" for name in ModelSize._fields), "model.dropout")
RESIZABLE_FAMILIES = ("transformer", "feedback")  # model families that have these sizes
AUTO_PLACEHOLDERS = {"model.heads": 1}  # held until others are chosen: one head fits any width
WARMUP_SETTING = "training.schedule.warmup"
PATIENCE_SETTING = "training.validation.patience"
AUTO_LIMITS = (
    "decoding.rules.max_length",
    "decoding.rules.max_length_ratio",
    "decoding.rules.max_length_offset",
)
AUTO_INPUT = ("input.split_sentences", "input.language", "input.pass_through")
AUTO_SETTINGS = (
    *AUTO_CLEANING,
    "text.source.size",
    *AUTO_MODEL,
    "training.steps",
    "training.batch_tokens",
    "training.label_smoothing",
    "training.optimizer.learning_rate",
    WARMUP_SETTING,
    "training.validation.every",
    PATIENCE_SETTING,
    "training.save_every",
    "decoding.beam.size",
    *AUTO_LIMITS,
    *AUTO_INPUT,
)
"""Every setting that may be `auto`."""
SAMPLE_PAIRS = 2000  # training pairs that the input settings of an old run are inferred from


def format_choices(choices: Iterable[SettingChoice]) -> list[str]:
    """One line for each reason, with the values chosen for it; defaults are left out."""
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
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(value) or "nothing"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def extract_auto(given: Mapping[str, Any]) -> tuple[Raw, tuple[str, ...]]:
    """A recipe's plain values without those that are `auto`, and the names of the `auto` settings.

    Length limits, input and, for a user's own files, cleaning are `auto` unless given.
    """
    raw = dict(given)
    corpus: Any = raw.get("corpus")
    model: Any = raw.get("model")
    resizable = isinstance(model, dict) and model.get("family") in RESIZABLE_FAMILIES
    if resizable and model.get("preset") == AUTO:
        rest = {name: value for name, value in model.items() if name != "preset"}
        raw["model"] = {**dict.fromkeys(ModelSize._fields, AUTO), **rest}
    allowed = [name for name in AUTO_SETTINGS if resizable or name not in AUTO_MODEL]
    auto = {name for name in allowed if get_path(raw, name.split(".")) == AUTO}
    raw = set_values(raw, {name: AUTO_PLACEHOLDERS.get(name, UNSET) for name in auto})
    own_files = isinstance(corpus, dict) and corpus.get("train") is not None
    for name in (*(AUTO_CLEANING if own_files else ()), *AUTO_LIMITS, *AUTO_INPUT):
        if get_path(raw, name.split(".")) is UNSET:
            auto.add(name)
    return raw, tuple(name for name in AUTO_SETTINGS if name in auto)


def run_input_settings(recipe: "TranslationRecipe", run: Path) -> InputSettings:
    """The input settings of a run; those that are `auto` are inferred from its training pairs."""
    auto = [setting.rpartition(".")[2] for setting in AUTO_INPUT if setting in recipe.auto]
    if not auto:
        return recipe.input
    inferred = infer_input_settings(run)
    return recipe.input.model_copy(update={name: getattr(inferred, name) for name in auto})


def infer_input_settings(run: Path) -> InputSettings:
    """Settings inferred from the first training pairs of a run; the defaults if they are gone."""
    files = (run / "data" / f"train.{side}.txt" for side in ("source", "target"))
    try:
        lines = islice(zip(*map(plain_lines, files), strict=False), SAMPLE_PAIRS)
        pairs = [Pair(source.decode(), target.decode()) for source, target in lines]
    except (OSError, ValueError):
        return InputSettings()
    return measure_segmentation(pairs).settings()


def with_auto(setting: str, default: str, meaning: str) -> tuple[str, str]:
    """The default and the meaning of a setting, and what `auto` means if it may be `auto`."""
    plain = re.sub(r" \([^)]*\)", "", setting)
    resizable = re.search("|".join(RESIZABLE_FAMILIES), setting)
    chosen = "chosen from the training pairs and the machine"
    if plain == "model.preset":
        chosen = "each size that is not given is chosen as if it were `auto`"
    elif plain not in AUTO_SETTINGS or (plain in AUTO_MODEL and not resizable):
        return default, meaning
    elif plain in AUTO_LIMITS:
        usual = getattr(RuleSettings(), plain.rpartition(".")[2])
        chosen = f"as much as the targets of the training pairs need, but at least {usual:g}"
    elif plain in AUTO_CLEANING:
        chosen = f"chosen from the corpus for your own files; {default} otherwise"
    auto_by_default = plain in (*AUTO_LIMITS, *AUTO_CLEANING)
    return "`auto`" if auto_by_default else default, f"{meaning} `auto`: {chosen}."
