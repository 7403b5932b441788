"""What `regard look` needs of the pipelines of all tasks but translation."""

from collections.abc import Sequence
from typing import Any, Protocol

from matplotlib.figure import Figure
from rich.console import RenderableType

from regard.inspection.interventions import HeadIntervention
from regard.inspection.plots.figure import ThemeName


class Look(Protocol):
    """An answer with its attention; its text is the answer."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know about the inputs."""
        ...

    @property
    def before(self) -> "Look | None":
        """The answer without interventions; None if there are none."""
        ...

    @property
    def title(self) -> str:
        """Which attention is shown."""
        ...

    def show(self) -> RenderableType:
        """The attention for the terminal."""
        ...

    def plot(self, *, theme: ThemeName = "light") -> Figure:
        """The attention as a figure."""
        ...

    def page(self, model: str) -> str:
        """The attention as one HTML page of the run `model`; a `SettingsError` if it has none."""
        ...

    def to_json(self) -> dict[str, Any]: ...


class Pipeline(Protocol):
    """A saved run as a function."""

    def look(self, texts: Sequence[str], *, changes: Sequence[HeadIntervention] = ()) -> Look:
        """The answer to the arguments of a command line, with its attention under `changes`."""
        ...
