"""Where a run stands."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from pydantic import ConfigDict, NonNegativeInt, TypeAdapter

from regard.batching.sampler import StreamPosition

START = StreamPosition(0, 0)


@dataclass(frozen=True)
class Progress:
    """Where a run stands, beside its tensors."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", allow_inf_nan=False)

    step: NonNegativeInt = 0
    position: StreamPosition = START
    best: tuple[tuple[float, int], ...] = ()
    """Value (the higher the better) and step of the best validated weights, best first."""
    validated: NonNegativeInt = 0
    """The step of the last validation."""
    stale: NonNegativeInt = 0
    """Validations since the last new best."""
    seconds: float = 0.0
    threads: int = 0
    """Threads of torch: with another number, sums are taken in another order."""
    precision: str = ""
    """What products were computed in; empty if the checkpoint was written before this was kept."""

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "Progress":
        """The progress that `write` wrote; a `ValueError` for anything else."""
        progress = PROGRESS.validate_python(raw)
        if missing := {"step", "position", "best"} - raw.keys():
            raise ValueError(f"it says no {', '.join(sorted(missing))}")
        if min(progress.position) < 0 or (progress.validated and not progress.best):
            raise ValueError("its numbers contradict each other")
        return progress

    def write(self) -> dict[str, Any]:
        return {**self.__dict__, "position": list(self.position), "best": list(self.best)}

    def resumed_with(self, threads: int, precision: str) -> "ResumedProgress":
        """The same, taken up where sums and products are these."""
        notes = []
        if self.threads != threads:
            notes.append(
                f"begun with {self.threads} threads, resumed with {threads}: "
                "the weights will differ in their last bits from an unbroken run's"
            )
        if self.precision not in ("", precision):
            notes.append(
                f"begun in {self.precision}, resumed in {precision}: the weights will differ from "
                "an unbroken run's; training.precision says which to use"
            )
        return ResumedProgress(replace(self, threads=threads, precision=precision), tuple(notes))


PROGRESS = TypeAdapter(Progress)


class ResumedProgress(NamedTuple):
    """A progress taken up again."""

    progress: Progress
    notes: tuple[str, ...]
    """What will be other than if it had never been left."""
