"""The classes of a classifier that `transformers` saved."""

import re
from collections import Counter
from typing import Any

from regard.errors import RunError
from regard.exchange.huggingface.config import ConfigReader
from regard.exchange.huggingface.folder import HfFolder
from regard.settings import abbreviate

MAX_LABELS = 100_000
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # characters, line ends too
SINGLE_LABEL = "single_label_classification"


def require_classes(config: ConfigReader, labels: tuple[str, ...]) -> None:
    """Refuse a model that is not a classifier with several classes."""
    config.require("problem_type", (None, SINGLE_LABEL))
    if len(labels) < 2:
        raise config.refusal("id2label", "a single label is for regression, not for classes")


def read_labels(folder: HfFolder) -> tuple[str, ...]:
    """The label of each class; labels that occur twice get their number."""
    names = folder.config.get("id2label")
    if names is None:  # as `transformers` names them
        count = folder.config_reader().get("num_labels", int, 2)
        names = {str(number): f"LABEL_{number}" for number in range(min(count, MAX_LABELS + 1))}
    expected = [str(number) for number in range(len(names))] if isinstance(names, dict) else []
    if not 0 < len(expected) <= MAX_LABELS or names.keys() != {*expected}:
        raise RunError(f"{folder.path / 'config.json'}: id2label does not number labels from 0 on")
    found = [str(names[number]) for number in expected]
    for number, name in enumerate(found):
        if not name.strip() or CONTROL.search(name):
            raise RunError(
                f"{folder.path / 'config.json'}: id2label names the class {number} "
                f"{abbreviate(repr(name))}; a label must not be empty or have tabs or line ends: "
                "rename it there"
            )
    counts = Counter(found)
    numbered = [f"{name} ({number})" for number, name in enumerate(found)]
    labels = [
        name if counts[name] == 1 else other for name, other in zip(found, numbered, strict=True)
    ]
    return tuple(labels if len({*labels}) == len(labels) else numbered)


def label_config(labels: tuple[str, ...]) -> dict[str, Any]:
    """The settings of `config.json` that name the classes."""
    numbered = {str(number): label for number, label in enumerate(labels)}
    return {"id2label": numbered, "label2id": {label: int(n) for n, label in numbered.items()}}
