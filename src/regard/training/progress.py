"""Where a run stands."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from regard.batching.drawing import Position

START = Position(0, 0)


@dataclass(frozen=True)
class Progress:
    """Where a run stands, beside its tensors."""

    step: int = 0
    position: Position = START
    best: tuple[tuple[float, int], ...] = ()
    """Value (the higher the better) and step of the best validated weights, best first."""
    validated: int = 0
    """The step of the last validation."""
    stale: int = 0
    """Validations since the last new best."""
    seconds: float = 0.0
    threads: int = 0
    """Threads of torch: with another number, sums are taken in another order."""
    precision: str = ""
    """What products were computed in; empty if the checkpoint was written before this was kept."""

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> "Progress":
        best = tuple((float(value), int(step)) for value, step in raw["best"])
        return cls(**{**raw, "position": Position(*raw["position"]), "best": best})

    def write(self) -> dict[str, Any]:
        return {**self.__dict__, "position": list(self.position), "best": list(self.best)}

    def here(self, threads: int, precision: str) -> "Taken":
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
        return Taken(replace(self, threads=threads, precision=precision), tuple(notes))


class Taken(NamedTuple):
    """A progress taken up again."""

    progress: Progress
    notes: tuple[str, ...]
    """What will be other than if it had never been left."""
