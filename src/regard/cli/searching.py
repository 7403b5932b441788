"""Options of a search -> its settings."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from regard.decoding.search import DecodingSettings
from regard.errors import SettingsError


def search_settings(
    recipe: DecodingSettings,
    *,
    beam: int | None = None,
    n_best: int = 1,
    length_penalty: float | None = None,
    sampling: Mapping[str, Any] | None = None,
) -> DecodingSettings:
    """The recipe's settings with what the options change; a beam holds at least the n best."""
    changed = recipe.model_dump() | {"n_best": n_best}
    if sampling is not None:
        if beam is not None or length_penalty is not None:
            raise SettingsError("--sample excludes --beam and --length-penalty: drop one of them")
        changed |= {"sampling": dict(sampling), "beam": {}}
    else:
        size = beam or max(n_best, recipe.beam.size)
        changed["beam"] |= {"size": size}
        if length_penalty is not None:
            changed["beam"] |= {"length_penalty": length_penalty}
    try:
        return DecodingSettings.model_validate(changed)
    except ValidationError as error:
        raise SettingsError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None
