"""The recipe of a translator: the settings classes of the lower layers, nested."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import (
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from regard.corpora.pairs.build import CorpusSettings
from regard.corpora.pairs.dialogues import SPEAKERS
from regard.decoding.settings import DecodingSettings
from regard.errors import SettingsError
from regard.evaluation.bleu_tokenizer import EvaluationSettings
from regard.models.build import ModelSettings
from regard.models.translation.transformer_settings import TransformerSettings
from regard.nested_values import set_values
from regard.settings import AUTO, SettingChoice
from regard.tasks.contracts import TaskRecipe, without_vocabulary
from regard.tasks.names import TEXT_TASKS
from regard.tasks.translation.auto_settings import (
    AUTO_MODEL,
    AUTO_SETTINGS,
    extract_auto,
    with_auto,
)
from regard.tasks.translation.refinement import refinement_training_settings
from regard.tasks.translation.settings import TranslationTrainingSettings
from regard.text.segmentation import InputSettings
from regard.text.settings import TextSettings
from regard.training.refinement import RefinementSettings
from regard.training.settings import require_dropout


class TranslationRecipe(TaskRecipe):
    """One run of a translator: its data, its model, its training and its search.

    A chatbot is a translator too: it translates messages into answers.
    """

    task: Literal["translation", "chat"] = "translation"
    """The task; recipes of other tasks have other settings."""
    second_stage_group: ClassVar[str] = "refinement"
    corpus: CorpusSettings
    """The training data."""
    text: TextSettings = TextSettings()
    """How text becomes tokens."""
    model: ModelSettings = TransformerSettings(preset="small")
    """The model; `family` selects its kind, and each family has its own settings."""
    training: TranslationTrainingSettings = TranslationTrainingSettings()
    """How the model is trained."""
    refinement: RefinementSettings | None = None
    """A second stage of training, on the model's own translations; null: none."""
    decoding: DecodingSettings = DecodingSettings()
    """How translations are searched for."""
    evaluation: EvaluationSettings = EvaluationSettings()
    """How translations are scored."""
    input: InputSettings = InputSettings()
    """How a line of input is split, and which parts of it are translated."""

    _auto: tuple[str, ...] = PrivateAttr(default=())

    @classmethod
    def auto_settings(cls) -> tuple[str, ...]:
        return (*AUTO_SETTINGS, "model.preset")

    @classmethod
    def with_auto(cls, setting: str, default: str, meaning: str) -> tuple[str, str]:
        return with_auto(setting, default, meaning)

    def begun_with(self, other: TaskRecipe) -> "TranslationRecipe":
        """The vocabulary is that of the run, unless the recipe asks for its own. So is the model
        where its size is `auto`, except for sizes and dropout that the recipe gives. Pairs that are
        longer than the model's positions are left out of training, unless the recipe sets a limit
        on length.
        """
        if self.start is None:
            return self
        if other.task not in TEXT_TASKS:
            raise SettingsError(
                f"--from: a run of {self.task} can start from one of {' or '.join(TEXT_TASKS)}, "
                f"not of {other.task}"
            )
        taken = ["text"] if self.start.vocabulary != "own" else []
        taken += ["model"] if any(name in AUTO_MODEL for name in self.auto) else []
        given = other.model_dump(mode="json")
        if self.start.vocabulary == "own":
            given["model"] = without_vocabulary(given["model"])
        given["model"] |= {
            name: value for name, value in self._given_sizes().items() if name in given["model"]
        }
        values = {name: given[name] for name in taken}
        positions = given["model"].get("max_positions") if "model" in taken else None
        if positions is not None and "max_tokens" not in self.training.model_fields_set:
            values["training.max_tokens"] = min(self.training.max_tokens, max(1, positions - 1))
        return self.with_values(values)

    def _given_sizes(self) -> dict[str, Any]:
        """The preset, sizes and dropout of the model that are given: neither `auto` nor
        left out.
        """
        given = [setting.rpartition(".")[2] for setting in AUTO_MODEL if setting not in self.auto]
        names = self.model.model_fields_set.intersection(["preset", *given])
        return {name: getattr(self.model, name) for name in names}

    @property
    def auto(self) -> tuple[str, ...]:
        """The dotted names of settings that are `auto`; they hold defaults until values are
        chosen.
        """
        return self._auto

    def with_choices(self, choices: Iterable[SettingChoice]) -> "TranslationRecipe":
        """The recipe with the values chosen for settings that are `auto`."""
        return self.with_values({name: value for name, value, _ in choices if name in self.auto})

    def uses_vocabulary(self) -> bool:
        return True

    def second_stage_settings(self) -> TranslationTrainingSettings | None:
        """The settings of refinement."""
        if self.refinement is None:
            return None
        return refinement_training_settings(self.training, self.refinement)

    def resumed_from(self, saved: TaskRecipe) -> "TranslationRecipe":
        if not isinstance(saved, TranslationRecipe):
            return self
        recipe = self.with_choices_of(saved)
        if recipe.evaluation.tokenize != "auto":
            return recipe
        return recipe.model_copy(update={"evaluation": saved.evaluation})

    def check_resumable(self, saved: TaskRecipe, run: Path) -> None:
        """The scores that select the best weights must stay comparable."""
        assert isinstance(saved, TranslationRecipe)
        chosen, given = saved.evaluation.tokenize, self.evaluation.tokenize
        if "auto" not in (chosen, given) and chosen != given:
            raise SettingsError(
                f"{run}: its weights are selected by scores under evaluation.tokenize {chosen}, "
                f"which cannot be compared with scores under {given}; keep it, or train a new "
                "run with --out"
            )

    def with_choices_of(self, other: "TranslationRecipe") -> "TranslationRecipe":
        """The recipe with the values of `other` for settings that are `auto` here and not there;
        these are no longer `auto`.
        """
        names = [name for name in self.auto if name not in other.auto]
        return self.with_values({name: attrgetter(name)(other) for name in names})

    @model_validator(mode="wrap")
    @classmethod
    def _extract_auto(
        cls, given: Any, handler: Callable[[Any], "TranslationRecipe"]
    ) -> "TranslationRecipe":
        if not isinstance(given, dict):
            return handler(given)
        raw, auto = extract_auto(given)
        recipe = handler(raw)
        recipe._auto = auto
        return recipe

    @model_serializer(mode="wrap")
    def _serialize_auto(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return set_values(handler(self), dict.fromkeys(self._auto, AUTO))

    @model_validator(mode="after")
    def _check_refined_weights_are_plain(self) -> "TranslationRecipe":
        if self.refinement is not None and self.training.fine_tuning.lora is not None:
            raise ValueError(
                "refinement trains all weights, and training.fine_tuning.lora only a few: "
                "leave out one of them"
            )
        return self

    @model_validator(mode="after")
    def _check_chat_has_dialogues(self) -> "TranslationRecipe":
        dialogues, is_chat = self.corpus.dialogue_settings is not None, self.task == "chat"
        if dialogues != is_chat:
            raise ValueError(
                "task: chat and a corpus of dialogues need each other, as in the recipe "
                f"dailydialog: got task: {self.task} and the corpus {self.corpus.corpus_label}"
            )
        if is_chat and not {*SPEAKERS} <= {*self.text.source.symbols}:
            raise ValueError(
                "histories contain tokens of speakers: set text.source.symbols to "
                f"[{', '.join(SPEAKERS)}]"
            )
        return self

    @model_validator(mode="after")
    def _check_consistency_has_dropout(self) -> "TranslationRecipe":
        require_dropout(self.training.consistency, self.model)
        return self
