import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import BaseModel

from regard.recipes.recipe import Recipe
from regard.recipes.settings_reference import explain_settings

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"


def groups(kind):
    """The settings classes inside an annotation, however deep."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
        for field in kind.model_fields.values():
            yield from groups(field.annotation)
    for part in get_args(kind):
        yield from groups(part)


GROUPS = sorted(set(groups(Recipe)), key=lambda group: group.__name__)


def test_the_page_in_the_docs_is_what_is_printed():
    assert PAGE.read_text(encoding="utf-8") == explain_settings() + "\n", (
        "run: regard recipes settings > docs/settings.md"
    )


def test_groups_are_found():
    names = {group.__name__ for group in GROUPS}
    assert {"Recipe", "TransformerSettings", "TokenizerSettings", "GeneratedSettings"} <= names
    assert len(names) > 15


@pytest.mark.parametrize("group", GROUPS)
def test_every_group_is_explained(group):
    page = explain_settings()
    assert " ".join(group.__doc__.split()).replace("|", "\\|") in page


@pytest.mark.parametrize("group", GROUPS)
def test_every_setting_has_a_meaning(group):
    bare = [
        name
        for name, field in group.model_fields.items()
        if not field.description and not list(groups(field.annotation))
    ]
    assert bare == []


def test_every_setting_has_a_row_with_a_meaning():
    rows = [line for line in explain_settings().splitlines() if line.startswith("| `")]
    assert len(rows) >= sum(len(group.model_fields) for group in GROUPS)
    for row in rows:
        name, default, meaning = re.split(r"(?<!\\)\|", row)[1:-1]
        assert name.strip()
        assert default.strip()
        assert len(meaning.split()) > 1, row


@pytest.mark.parametrize(
    "row",
    [
        "| `steps` | `10000` | Updates of the weights. `auto`: chosen by the training pairs and "
        "the machine. |",
        "| `training` | see below | How it learns. |",
        "| `name` | required | What the run is called; `runs/NAME` is where it goes unless told "
        "otherwise. |",
        "| `sampling` | `null` | Sampling, in place of the beam. |",
        '| `precision` | `"auto"` | One of `auto`, `float32`, `bfloat16`. What the products are '
        "computed in; the weights themselves stay float32. `auto`: bfloat16 where the device has "
        "instructions for it (avx512_bf16 or AMX; NVIDIA from Ampere on), or float32. |",
    ],
)
def test_rows_say_default_choices_and_meaning(row):
    assert row in explain_settings().splitlines()
