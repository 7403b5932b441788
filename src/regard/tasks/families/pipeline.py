"""A saved run as a function of inputs, and its answers: the bases of those of all tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from matplotlib.figure import Figure
from rich.console import RenderableType

from regard.errors import SettingsError
from regard.inspection.interventions import (
    HeadChange,
    HeadCounts,
    InterventionRequest,
    Silenced,
    list_head_ablations,
    require_heads,
)
from regard.inspection.plots.figure import notebook_html
from regard.inspection.recording.attention_map import Part
from regard.inspection.viewer.html_page import notebook_page
from regard.iterate import Track, untracked
from regard.recipes.open_run import Run
from regard.tasks.families.viewer_document import HeadAblation, ablated_answers

MAX_ABLATED_POSITIONS = 1 << 15  # read again for a page, once without each head
AttentionT = TypeVar("AttentionT")
TaskT = TypeVar("TaskT")
ModelT = TypeVar("ModelT")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TaskAnswer(ABC, Generic[AttentionT]):
    """The answer to one input, as `str` has it; a look has the attention that it was made with, and
    a notebook displays that.

    `view`: the pipeline's `look_options` that select which attention is shown.
    """

    alt: ClassVar[str] = ""
    """What a notebook's figure shows, for those who do not see it; empty: the answer."""

    notes: tuple[str, ...] = ()  # warnings about the input
    error: str | None = None  # why there is no answer
    attention: AttentionT | None = None  # if it was recorded
    changes: tuple[InterventionRequest, ...] = ()  # the interventions
    ablate: Callable[[], list[HeadAblation]] = list
    """The answer without each head, which a page can show."""
    before: Self | None = None  # the answer without interventions

    @property
    @abstractmethod
    def heads(self) -> HeadCounts:
        """The number of heads in each layer of the attention."""

    @property
    @abstractmethod
    def title(self) -> str:
        """Which attention is shown; empty if `show` prints that itself."""

    @abstractmethod
    def show(self, *args: Any, **view: Any) -> RenderableType:
        """The attention for the terminal."""

    @abstractmethod
    def plot(self, *args: Any, **view: Any) -> Figure:
        """The attention as a figure, in a `theme`."""

    @abstractmethod
    def render(self, model: str, without: Sequence[HeadAblation]) -> str:
        """The page of the run `model`, with answers `without` its heads."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Plain values."""

    @abstractmethod
    def look_json(self) -> dict[str, Any]:
        """Those of the attention and of the answer before the changes; empty without attention."""

    def page(self, model: str) -> str:
        """The attention as one interactive offline page of the run `model`."""
        # a page of a changed answer has no ablations: they would combine with the changes
        return self.render(model, self.ablate() if self.before is None else [])

    def required_attention(self) -> AttentionT:
        """The attention, or an error if it was not recorded."""
        if self.attention is None:
            raise SettingsError(self.error or "the attention was not recorded: use look(…)")
        return self.attention

    def text_html(self) -> str:
        """The HTML that a notebook shows before the attention."""
        return f"<p>{escape(self.error or str(self))}</p>"

    def picture_html(self) -> str:
        """That of the attention; empty if it was not recorded."""
        if self.attention is None:
            return ""
        figure = notebook_html(lambda theme: self.plot(theme=theme), alt=self.alt or str(self))
        return notebook_page(self.render("", []), figure)

    def _repr_html_(self) -> str:
        return self.text_html() + self.picture_html()

    def __repr__(self) -> str:
        notes = f", notes={list(self.notes)}" if self.notes else ""
        return f"<{type(self).__name__} {self.error or str(self)!r}{notes}>"


def ablate_heads(
    heads: HeadCounts,
    num_positions: int,
    answer_without: Callable[[Silenced], str],
    track: Track = untracked,
) -> list[HeadAblation]:
    """The answer without each of the `heads`, and without all heads of each layer; none if an input
    of `num_positions` would be read too many times.
    """
    ablations = list_head_ablations(heads)
    if len(ablations) * num_positions > MAX_ABLATED_POSITIONS:
        return []
    return ablated_answers(track(ablations), answer_without)


AnswerT = TypeVar("AnswerT", bound=TaskAnswer[Any])


class Pipeline(Generic[TaskT, ModelT]):
    """A saved run as a function; of some tasks, several runs that answer together."""

    look_part: Part = "cross"
    """The part that an intervention changes if it names none."""
    look_options: ClassVar[str] = ""
    """The options of `regard look` that it has in addition to those of all tasks, separated by
    spaces. `track`: `look` is given a progress display, as making a page takes long."""

    def __init__(self, run: Run, *others: Run) -> None:
        self.task: TaskT = run.task
        self.model: ModelT = run.model
        self.folder = run.folder.path
        self.others = tuple(type(self)(other) for other in others)  # of its ensemble

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.folder}>"

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        device: torch.device = next(self.model.parameters()).device  # type: ignore[attr-defined]
        return device

    def look_under(
        self,
        changes: Sequence[HeadChange],
        look: Callable[[Sequence[HeadChange]], AnswerT],
    ) -> AnswerT:
        """What `look` returns under `changes`, which must be of heads that there are, with what it
        returns without any.
        """
        if self.others:
            raise SettingsError(
                f"{self!r}: an ensemble of {1 + len(self.others)} runs has no attention of its "
                "own; look into one of them"
            )
        plain = look(())
        if not changes:
            return plain
        require_heads(changes, plain.heads)
        return replace(look(changes), changes=tuple(changes), before=plain)
