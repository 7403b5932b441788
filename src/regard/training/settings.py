"""The settings of a training."""

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from regard.settings import Settings
from regard.training.layer_groups import FineTuningSettings
from regard.training.optimizer import OptimizerSettings, ScheduleSettings
from regard.training.step import PrecisionName


def require_dropout(consistency: float, *models: Settings) -> None:
    """Raise an error if two passes over a batch are to agree that cannot differ: none of the
    settings of a model, and of models inside it, has dropout.
    """
    dropouts = [value for model in models for name, value in model if name.endswith("dropout")]
    if consistency and not any(dropouts):
        raise ValueError(
            f"training.consistency {consistency:g} asks that two passes with unlike dropout agree, "
            "and the model has no dropout: set model.dropout, or training.consistency to 0"
        )


class ValidationSettings(Settings):
    """When the model is tried on held-out data."""

    every: PositiveInt = 500
    """Steps between two validations."""
    patience: PositiveInt | None = None
    """Stop after so many validations in a row without a new best; null never stops early."""


class TrainingSettings(Settings):
    """How a model is trained."""

    steps: PositiveInt = 10_000
    """Updates of the weights."""
    seed: NonNegativeInt = 1
    """Decides the first weights, the order of the examples and what dropout drops."""
    accumulate: PositiveInt = 1
    """Batches whose gradients are summed into one step; on several devices, of each of them. What
    dropout drops of such a batch depends on the seed, the step and its number in the step alone."""
    precision: PrecisionName = "auto"
    """What the products are computed in; the weights themselves stay float32. `auto`: bfloat16
    where the device has instructions for it (avx512_bf16 or AMX; NVIDIA from Ampere on), or
    float32."""
    compile: bool = False
    """Compile the loss with torch.compile: minutes of waiting first, then faster on a GPU."""
    capture: Literal["auto"] | bool = "auto"
    """Replay steps as CUDA graphs, which a GPU runs without waiting for the host; the results are
    the same. `auto`: on a GPU, unless the loss is compiled. A model that cannot be captured, as one
    with experts, is trained without, and says so."""
    sharded: bool = False
    """On several devices, divide weights, gradients, averages and the optimizer's state among them
    (FSDP2), for models that do not fit on one; steps are not captured then. Otherwise each
    device holds all of them."""
    optimizer: OptimizerSettings = OptimizerSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    fine_tuning: FineTuningSettings = FineTuningSettings()
    validation: ValidationSettings = ValidationSettings()
    moving_average: float = Field(default=0.0, ge=0, lt=1)
    """Decay of an exponential moving average of the weights, which is then what is validated and
    kept, such as 0.999; 0 keeps the weights as they are."""
    nonmonotone_average: PositiveInt | None = None
    """Once a validation is worse than the best of those more than so many before it, what is
    validated and kept is the mean of the weights of all steps since then (Merity et al. 2018,
    NT-ASGD with SGD; they use 5). null never averages so."""
    average: PositiveInt = 1
    """How many of the best validated weights are averaged; the average is used where it scores no
    worse in validation than the best alone."""
    log_every: PositiveInt = 50
    """Steps between two lines of metrics."""
    save_every: PositiveInt = 500
    """Steps between two checkpoints to resume from."""
    keep: int = Field(default=2, ge=2)
    """Checkpoints kept: at least two, so that a damaged one has one before it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.capture is True and self.compile:
            raise ValueError(
                "what is compiled is not captured as well; leave out one of compile and capture"
            )
        if self.sharded and self.fine_tuning != FineTuningSettings():
            raise ValueError(
                "fine_tuning, of groups of layers or by low-rank updates, goes with whole weights; "
                "leave out one of sharded and fine_tuning"
            )
        if self.fine_tuning.lora is not None and self.optimizer.kind == "muon":
            raise ValueError(
                "optimizer.kind muon moves whole matrices, and fine_tuning.lora trains low-rank "
                "updates of them alone; choose adam, or leave out lora"
            )
        if self.sharded and self.optimizer.kind == "muon":
            raise ValueError(
                "optimizer.kind muon needs whole matrices, and sharded ranks have some rows of "
                "each; choose adam, or sharded: false"
            )
        if self.sharded and (self.compile or self.capture is True):
            raise ValueError(
                "what is sharded is neither compiled nor captured; leave out one of them"
            )
        if self.moving_average and self.nonmonotone_average:
            raise ValueError(
                "one average of the weights is kept: leave out moving_average or "
                "nonmonotone_average"
            )
        return self
