"""The shape of a recipe: nothing but the settings classes of the folders below, nested."""

from pydantic import model_validator

from regard.corpora.build import CorpusSettings
from regard.decoding.settings import DecodingSettings
from regard.evaluation.bleu_tokenizer import EvaluationSettings
from regard.models.build import ModelSettings
from regard.models.transformer import TransformerSettings
from regard.settings import Settings
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

    @model_validator(mode="after")
    def _agree(self) -> "Recipe":
        dropouts = [value for name, value in self.model if name.endswith("dropout")]
        if self.training.consistency and not any(dropouts):
            raise ValueError(
                f"training.consistency {self.training.consistency:g} asks that two passes with "
                "unlike dropout agree, and the model has no dropout: set model.dropout, or "
                "training.consistency to 0"
            )
        return self
