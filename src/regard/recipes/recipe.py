"""The shape of a recipe: nothing but the settings classes of the folders below, nested."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import (
    ModelWrapValidatorHandler,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from regard.corpora.build import CorpusSettings
from regard.decoding.settings import DecodingSettings
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import EvaluationSettings
from regard.models.build import ModelSettings
from regard.models.translation.transformer import TransformerSettings
from regard.recipes.auto_settings import (
    AUTO,
    AUTO_SETTINGS,
    SettingChoice,
    extract_auto,
    get_setting,
    set_values,
)
from regard.settings import Settings, expectation
from regard.text.segmentation import InputSettings
from regard.text.settings import TextSettings
from regard.training.loop import TrainingSettings
from regard.training.refinement import RefinementSettings


class Recipe(Settings):
    """One run, whole: what it learns from, what it is, how it learns and how it is used."""

    name: str
    """What the run is called; `runs/NAME` is where it goes unless told otherwise."""
    about: str = ""
    """What the recipe is for, in a sentence or two."""
    corpus: CorpusSettings
    """What is learned from."""
    text: TextSettings = TextSettings()
    """How text becomes tokens."""
    model: ModelSettings = TransformerSettings(preset="small")
    """What learns: `family` says which model, and each family has settings of its own."""
    training: TrainingSettings = TrainingSettings()
    """How it learns."""
    refinement: RefinementSettings | None = None
    """How it then learns from its own translations; null leaves it as `training` made it."""
    decoding: DecodingSettings = DecodingSettings()
    """How its answers are searched for."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """How its answers are scored."""
    input: InputSettings = InputSettings()
    """Which parts of a line are translated, and whether together."""

    _auto: tuple[str, ...] = PrivateAttr(default=())

    @property
    def auto(self) -> tuple[str, ...]:
        """The places of settings that say `auto`, and hold their defaults until they are chosen."""
        return self._auto

    def with_choices(self, choices: Iterable[SettingChoice]) -> "Recipe":
        """The recipe with those values that were chosen for what says `auto`."""
        return self.with_values({one.place: one.value for one in choices if one.place in self.auto})

    def with_choices_of(self, other: "Recipe") -> "Recipe":
        """The recipe with the values of another one wherever it says `auto`, and that does not."""
        known = [place for place in self.auto if place not in other.auto]
        return self.with_values({place: get_setting(other, place) for place in known})

    def with_values(self, values: Mapping[str, Any]) -> "Recipe":
        """The recipe with other values at some places, none of which says `auto` any more."""
        if not values:
            return self
        try:
            return Recipe.model_validate(set_values(self.model_dump(mode="json"), values))
        except ValidationError as error:
            chosen = ", ".join(f"{place} {value}" for place, value in values.items())
            wrong = expectation(error.errors()[0])
            raise SettingsError(f"{wrong}: settings given do not go with {chosen}") from None

    @model_validator(mode="wrap")
    @classmethod
    def _extract_auto(cls, given: Any, handler: ModelWrapValidatorHandler["Recipe"]) -> "Recipe":
        if not isinstance(given, dict):
            return handler(given)
        raw, places = extract_auto(given)
        recipe = handler(raw)
        recipe._auto = places
        return recipe

    @model_serializer(mode="wrap")
    def _serialize_auto(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return set_values(handler(self), dict.fromkeys(self._auto, AUTO))

    @model_validator(mode="after")
    def _check_consistency_has_dropout(self) -> "Recipe":
        dropouts = [value for name, value in self.model if name.endswith("dropout")]
        if self.training.consistency and not any(dropouts):
            raise ValueError(
                f"training.consistency {self.training.consistency:g} asks that two passes with "
                "unlike dropout agree, and the model has no dropout: set model.dropout, or "
                "training.consistency to 0"
            )
        return self


def recipe_schema() -> dict[str, Any]:
    """The JSON schema of a recipe, in which what may be chosen may say `auto`."""
    schema = Recipe.model_json_schema()
    for place in (*AUTO_SETTINGS, "model.preset"):
        *outer, name = place.split(".")
        for group in _groups(schema, schema, outer):
            if name in group["properties"]:
                field = group["properties"][name]
                about = {key: field[key] for key in ("default", "description") if key in field}
                group["properties"][name] = {"anyOf": [field, {"const": AUTO}], **about}
    return schema


def _groups(schema: dict[str, Any], node: dict[str, Any], path: list[str]) -> list[dict[str, Any]]:
    """The groups of settings that may be at a path of a JSON schema."""
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[1]]
    found = [
        one
        for option in (*node.get("anyOf", ()), *node.get("oneOf", ()))
        for one in _groups(schema, option, path)
    ]
    if "properties" not in node:
        return found
    if not path:
        return [*found, node]
    inner = node["properties"].get(path[0])
    return [*found, *(_groups(schema, inner, path[1:]) if inner else [])]
