"""Settings of training that translation has beside those of every task."""

from pydantic import Field, PositiveInt

from regard.evaluation.metrics import METRICS, SelectionCriterion
from regard.settings import NumPositions
from regard.training.loop import Selection
from regard.training.settings import TrainingSettings, ValidationSettings


class TranslationValidationSettings(ValidationSettings):
    """When and how the model is tried on held-out pairs."""

    by: SelectionCriterion = "bleu"
    """What decides which weights are best: a score of decoded text, or the loss on given text."""
    sentences: PositiveInt = 500
    """At most so many held-out sentences are decoded each time (the loss is taken over all)."""

    @property
    def selection(self) -> Selection:
        """What decides which weights are best, with its direction."""
        return Selection(self.by, self.by == "loss" or METRICS[self.by].lower_is_better)


class TranslationTrainingSettings(TrainingSettings):
    """How a model is trained."""

    batch_tokens: int = Field(default=4096, ge=1, le=1 << 24)
    """Positions in a batch: pairs times the longer side, padding included."""
    max_tokens: NumPositions = 256
    """Pairs with a side of more tokens are left out of training, and counted."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Share of each label that goes to all tokens of the vocabulary alike."""
    consistency: float = Field(default=0.0, ge=0)
    """What it costs when two draws of dropout disagree on the same pair (Liang et al. 2021,
    R-Drop; they use 5): doubles the work of a step and helps small corpora; 0 sees pairs once."""
    validation: TranslationValidationSettings = TranslationValidationSettings()
