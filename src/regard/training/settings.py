"""The settings of a training."""

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from regard.settings import Settings
from regard.training.layer_groups import FineTuningSettings
from regard.training.optimizer import OptimizerSettings, ScheduleSettings
from regard.training.step import PrecisionName


def require_dropout(consistency: float, *models: Settings) -> None:
    """Raise an error if `consistency` is set but two passes cannot differ, because neither the
    settings of the model nor those of models inside it have dropout.
    """
    dropouts = [value for model in models for name, value in model if name.endswith("dropout")]
    if consistency and not any(dropouts):
        raise ValueError(
            f"training.consistency {consistency:g} compares two passes with different dropout, "
            "but the model has no dropout: set model.dropout, or training.consistency to 0"
        )


class ValidationSettings(Settings):
    """When the model is validated on held-out data."""

    every: PositiveInt = 500
    """Steps between two validations."""
    patience: PositiveInt | None = None
    """The number of validations in a row without a new best after which training stops; null: no
    early stopping."""


class TrainingSettings(Settings):
    """How a model is trained."""

    steps: PositiveInt = 10_000
    """Updates of the weights."""
    seed: NonNegativeInt = 1
    """The seed of the initial weights, the order of the examples and dropout."""
    accumulate: PositiveInt = 1
    """Batches whose gradients are summed into one step, on each of several devices. The dropout of
    such a batch depends only on the seed, the step and the batch's number in the step."""
    precision: PrecisionName = "auto"
    """The precision of matrix products; the weights themselves stay float32. `auto`: bfloat16 where
    the device has instructions for it (avx512_bf16 or AMX; NVIDIA from Ampere on), otherwise
    float32."""
    compile: bool = False
    """Compile the loss with torch.compile: takes minutes at first, then is faster on a GPU."""
    capture: Literal["auto"] | bool = "auto"
    """Replay steps as CUDA graphs, which a GPU runs without waiting for the host; the results are
    the same. `auto`: on a GPU, unless the loss is compiled. A model that cannot be captured, such
    as one with experts, is trained without graphs, and a note says so."""
    sharded: bool = False
    """On several devices, divide weights, gradients, averages and the optimizer's state among them
    (FSDP2), for models that do not fit on one; steps are then not captured. false: each device
    holds all of them."""
    optimizer: OptimizerSettings = OptimizerSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    fine_tuning: FineTuningSettings = FineTuningSettings()
    validation: ValidationSettings = ValidationSettings()
    moving_average: float = Field(default=0.0, ge=0, lt=1)
    """Decay of an exponential moving average of the weights, such as 0.999; the average is then
    validated and kept instead of the weights. 0: no average."""
    nonmonotone_average: PositiveInt | None = None
    """The window of non-monotonically triggered averaging (NT-ASGD where the optimizer is SGD;
    Merity et al. 2018 use 5): once a validation is worse than the best of those more than this many
    validations before it, the mean of the weights of all later steps is validated and kept. null:
    no such average."""
    average: PositiveInt = 1
    """How many of the best validated weights are averaged; the average is used if it scores no
    worse in validation than the best weights alone."""
    log_every: PositiveInt = 50
    """Steps between two lines of metrics."""
    save_every: PositiveInt = 500
    """Steps between two checkpoints to resume from."""
    keep: int = Field(default=2, ge=2)
    """Checkpoints kept: at least two, so that there is an earlier one if the newest is damaged."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.capture is True and self.compile:
            raise ValueError(
                "a compiled step cannot be captured as well; leave out one of compile and capture"
            )
        if self.sharded and self.fine_tuning != FineTuningSettings():
            raise ValueError(
                "fine_tuning, of groups of layers or by low-rank updates, needs whole weights; "
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
                "sharded training is neither compiled nor captured; leave out one of them"
            )
        if self.moving_average and self.nonmonotone_average:
            raise ValueError(
                "one average of the weights is kept: leave out moving_average or "
                "nonmonotone_average"
            )
        return self
