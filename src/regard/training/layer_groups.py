"""Fine-tuning by groups of layers: which ones are trained at a step, and at which rate."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pydantic import Field, NonNegativeInt, PositiveInt
from torch import nn

from regard.errors import SettingsError
from regard.layers.low_rank import LoraSettings
from regard.models.contracts import AnyModel
from regard.settings import Settings


class FineTuningSettings(Settings):
    """How pre-trained layers are fine-tuned. A model has groups of layers, the lowest first; its
    new layers are in the last group.
    """

    rate_ratio: float = Field(default=1.0, ge=1.0)
    """The ratio of a group's learning rate to that of the group below (discriminative rates; Howard
    and Ruder 2018 use 2.6); the last group has the rate of the schedule."""
    unfreeze_every: PositiveInt | None = None
    """The number of steps after which one more group is trained, beginning with the last group
    alone (gradual unfreezing, Howard and Ruder 2018); null: all are trained from the first step
    on."""
    frozen: NonNegativeInt = 0
    """The number of groups, from the lowest, that are never trained."""
    frozen_parts: tuple[str, ...] = ()
    """Parts of the model that are never trained, as prefixes of the names of their weights, such as
    [encoder, embeddings] or [decoder.0]; a shared matrix is frozen if any of its uses is."""
    lora: LoraSettings | None = None
    """Train low-rank updates of the matrices instead of the matrices themselves (LoRA), with
    `--from`. The run then also holds them as an adapter, a small file for the run that it started
    from. null: all weights are trained."""


class LayerGroups:
    """The parameters of a model in groups, the lowest first; some of the groups are frozen."""

    def __init__(self, model: AnyModel, settings: FineTuningSettings) -> None:
        self.settings = settings
        _freeze_parts(model, settings.frozen_parts)
        self.groups = [list(model.parameters())]
        neutral = FineTuningSettings(lora=settings.lora, frozen_parts=settings.frozen_parts)
        if settings != neutral:
            self.groups = group_parameters(model)
            _check(settings, len(self.groups), type(model).__name__)
        # Parameters that the model itself freezes stay frozen.
        self._trainable = [[p for p in group if p.requires_grad] for group in self.groups]
        self._lowest = 0  # the first group that is trained

    def rate_factor(self, group: int) -> float:
        """The learning rate of a group, as a fraction of the schedule's."""
        return self.settings.rate_ratio ** (group + 1 - len(self.groups))

    def lowest_trained(self, step: int) -> int:
        """The first group that is trained at `step`, counted from 1."""
        every = self.settings.unfreeze_every
        thawed = len(self.groups) if every is None else 1 + (step - 1) // every
        return max(self.settings.frozen, len(self.groups) - thawed)

    def freeze_for(self, step: int) -> bool:
        """Enable the gradients of exactly those parameters that are trained at a step, and return
        whether that changed any.
        """
        lowest = self.lowest_trained(step)
        if lowest == self._lowest:
            return False
        self._lowest = lowest
        for number, group in enumerate(self._trainable):
            for parameter in group:
                parameter.requires_grad_(number >= lowest)
        return True


@contextmanager
def keep_trainable(model: AnyModel) -> Iterator[None]:
    """A context that may freeze parameters; at its end, the model's parameters are trainable as
    before.
    """
    learning = {parameter: parameter.requires_grad for parameter in model.parameters()}
    try:
        yield
    finally:
        for parameter, learns in learning.items():
            parameter.requires_grad_(learns)


def _freeze_parts(model: AnyModel, parts: Sequence[str]) -> None:
    """Freeze the weights of some parts. Raises an error if there are none, or no others."""
    names = dict(model.named_parameters())
    for part in parts:
        inside = [name for name in names if name == part or name.startswith(f"{part}.")]
        if not inside:
            known = ", ".join(dict.fromkeys(name.split(".")[0] for name in names))
            raise SettingsError(
                f"training.fine_tuning.frozen_parts: no weights of the model are in {part}; it has "
                f"{known}"
            )
        for name in inside:
            names[name].requires_grad_(False)
    if parts and not any(parameter.requires_grad for parameter in names.values()):
        raise SettingsError(
            "training.fine_tuning.frozen_parts: these are all parts of the model: "
            "nothing is left to train"
        )


def group_parameters(model: AnyModel) -> list[list[nn.Parameter]]:
    """The parameters of the groups of layers that a model names, the lowest first.

    A parameter in several groups counts to the lowest of them, one in no group to the last.
    """
    seen: set[nn.Parameter] = set()
    groups = []
    for modules in model.layer_groups():
        own = [p for module in modules for p in module.parameters() if p not in seen]
        groups.append(list(dict.fromkeys(own)))
        seen.update(own)
    rest = [p for p in model.parameters() if p not in seen]
    if not groups:
        return [rest]
    groups[-1] += rest
    return [group for group in groups if group]


def _check(settings: FineTuningSettings, count: int, model: str) -> None:
    """Raise an error if the settings do not fit a model with `count` groups."""
    if count == 1:
        raise SettingsError(
            f"training.fine_tuning has no effect: {model} names no groups of layers; leave it out"
        )
    if settings.frozen >= count:
        raise SettingsError(
            f"training.fine_tuning.frozen {settings.frozen}: the model has {count} groups of "
            f"layers, at least one of which must be trained; give {count - 1} or less"
        )
