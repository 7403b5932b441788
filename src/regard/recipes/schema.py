"""The shape of a recipe: nothing but the settings classes of the folders below, nested."""

from regard.corpora.build import CorpusSettings
from regard.decoding.search import DecodingSettings
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
