"""Options of a search -> its settings."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from regard.decoding.settings import DecodingSettings
from regard.errors import SettingsError
from regard.settings import expectation


def native_only_reason(settings: DecodingSettings) -> str | None:
    """What of a search the native engine alone can do; None: nothing."""
    beam, rules = settings.beam, settings.rules
    needs = {
        "answers are to be sampled": settings.sampling,
        "coverage counts": beam.coverage_penalty,
        f"normalise is {beam.normalise}": beam.normalise != "power" and beam.length_penalty,
        f"stop is {beam.stop}": beam.stop != "size" and beam.size > 1,
        f"excluded is {rules.excluded}": rules.excluded != "spread",
    }
    return next((need for need, is_so in needs.items() if is_so), None)


def portable_settings(settings: DecodingSettings) -> DecodingSettings:
    """The search nearest to these settings that every engine can do."""
    beam = {"normalise": "power", "stop": "size", "coverage_penalty": 0.0}
    rules = {"excluded": "spread"}
    return DecodingSettings(
        n_best=settings.n_best if settings.sampling is None else 1,
        beam=settings.beam.model_copy(update=beam),
        rules=settings.rules.model_copy(update=rules),
        capture=settings.capture,
    )


def search_settings(
    recipe: DecodingSettings,
    *,
    beam: int | None = None,
    n_best: int | None = None,
    length_penalty: float | None = None,
    sampling: Mapping[str, Any] | None = None,
    unknown: bool = False,
) -> DecodingSettings:
    """The recipe's settings with what the options change; a beam holds at least the n best.

    With `unknown` an answer may hold unknown words, whatever the recipe says.
    """
    changed = recipe.model_dump() | {"n_best": recipe.n_best if n_best is None else n_best}
    changed["rules"]["allow_unknown"] |= unknown
    beams = {"size": beam, "length_penalty": length_penalty}
    beams = {name: value for name, value in beams.items() if value is not None}
    if sampling is not None:
        if beams:
            raise SettingsError("--sample excludes --beam and --length-penalty: drop one of them")
        changed |= {"sampling": dict(sampling), "beam": {}}
    elif beams or recipe.sampling is None:
        wide = {"size": max(changed["n_best"], recipe.beam.size)}
        changed |= {"sampling": None, "beam": recipe.beam.model_dump() | wide | beams}
    try:
        return DecodingSettings.model_validate(changed)
    except ValidationError as error:
        mistake = error.errors()[0]
        place = ".".join(str(part) for part in mistake["loc"])
        message = expectation(mistake)
        raise SettingsError(f"{place}: {message}" if place else message) from None
