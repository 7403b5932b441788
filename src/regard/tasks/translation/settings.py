"""Training settings of translation, in addition to those of all tasks."""

from pydantic import Field, PositiveInt

from regard.evaluation.metrics import METRICS, SelectionCriterion
from regard.settings import NumPositions
from regard.training.loop import Selection
from regard.training.settings import TrainingSettings, ValidationSettings


class TranslationValidationSettings(ValidationSettings):
    """When and how the model is validated on held-out pairs."""

    by: SelectionCriterion = "bleu"
    """What selects the best weights: a score of decoded text, or the loss on the references."""
    sentences: PositiveInt = 500
    """The most held-out sentences that are decoded in a validation (the loss is taken over all)."""

    @property
    def selection(self) -> Selection:
        """The score that selects the best weights, and its direction."""
        return Selection(self.by, self.by == "loss" or METRICS[self.by].lower_is_better)


class TranslationTrainingSettings(TrainingSettings):
    """How a model is trained."""

    batch_tokens: int = Field(default=4096, ge=1, le=1 << 24)
    """Positions in a batch: pairs times the longer side, padding included."""
    max_tokens: NumPositions = 256
    """Pairs with more tokens than this on either side are left out of training, and counted."""
    label_smoothing: float = Field(default=0.1, ge=0, lt=1)
    """Share of each label's probability that is spread evenly over the vocabulary."""
    consistency: float = Field(default=0.0, ge=0)
    """Weight of the loss for disagreement between two passes with different dropout over the same
    pair (R-Drop, Liang et al. 2021, who use 5); it doubles the work of a step and helps on small
    corpora. 0: a single pass."""
    validation: TranslationValidationSettings = TranslationValidationSettings()
