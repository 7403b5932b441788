"""The interface of all tasks' pipelines that `regard look` uses."""

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from matplotlib.figure import Figure
from rich.console import RenderableType

from regard.inspection.interventions import HeadIntervention
from regard.inspection.plots.figure import ThemeName
from regard.inspection.recording.attention_map import Part


class Look(Protocol):
    """An answer with its attention; `str` of it is the answer.

    `view`: the pipeline's `look_options` that select which attention is shown.
    """

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the inputs."""
        ...

    @property
    def before(self) -> "Look | None":
        """The answer without interventions; None if there are none."""
        ...

    @property
    def title(self) -> str:
        """Which attention is shown; empty if `show` prints that itself."""
        ...

    def show(self, **view: Any) -> RenderableType:
        """The attention for the terminal."""
        ...

    def plot(self, *, theme: ThemeName = "light", **view: Any) -> Figure:
        """The attention as a figure."""
        ...

    def page(self, model: str) -> str:
        """The attention as one HTML page of the run `model`; a `SettingsError` if it has none."""
        ...

    def to_json(self) -> dict[str, Any]: ...


class Pipeline(Protocol):
    """A saved run as a function."""

    look_options: ClassVar[str]
    """The options of `regard look` that it has in addition to those of all tasks, separated by
    spaces. `track`: `look` is given a progress display, as making a page takes long."""

    @property
    def look_part(self) -> Part:
        """The part that an intervention changes if it names none."""
        ...

    def look(
        self, texts: Sequence[str], *, changes: Sequence[HeadIntervention] = (), **options: Any
    ) -> Look:
        """The answer to the arguments of a command line, with its attention under `changes`;
        `options` are those of `look_options` that change the answer.
        """
        ...
