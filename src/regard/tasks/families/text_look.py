"""The common base of looks into texts: likely tokens, and maps of a text's self-attention."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar, NamedTuple

from matplotlib.figure import Figure
from rich.console import Group, RenderableType

from regard.engines.native.attention_capture import AttentionCapture, PlotKind, show_maps
from regard.errors import SettingsError
from regard.inspection.interventions import HeadCounts
from regard.inspection.plots.figure import ThemeName
from regard.inspection.plots.maps import MAX_DRAWN_WORDS
from regard.inspection.recording.attention_map import AttentionMaps, Part
from regard.inspection.viewer.html_page import render_page
from regard.inspection.viewer.layer_maps import encode_maps
from regard.tasks.families.answer import Answer, Candidate
from regard.tasks.families.pipeline import TaskAnswer
from regard.tasks.families.viewer_document import (
    DocumentKind,
    HeadAblation,
    ViewerCandidate,
    viewer_document,
)
from regard.text.special_tokens import legible_piece

BETWEEN = "|||"  # separates the two texts of a pair
MAX_SHOWN_WORDS = 40  # of a map in the terminal


class LikelyToken(NamedTuple):
    """A token that may follow a text, or stand in a masked place of it."""

    piece: str
    probability: float
    before: float | None = None  # the probability without interventions

    @property
    def name(self) -> str:
        """The piece as the viewer shows it."""
        return legible_piece(self.piece)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class TextLook(TaskAnswer[AttentionCapture]):
    """A text with its attention to itself, in the one part that the model has."""

    alt = "attention"
    kind: ClassVar[DocumentKind]
    """The viewer's kind for looks of this class."""
    no_tree: ClassVar[str] = "the model answers without a search: there are no hypotheses"
    """Why a search tree cannot be drawn."""

    @property
    def part(self) -> Part:
        """Where the attention is."""
        [part] = self.required_attention().parts
        return part

    @property
    def heads(self) -> HeadCounts:
        return self.required_attention().heads

    @abstractmethod
    def answers(self) -> list[RenderableType]:
        """The answers that the terminal shows before the maps."""

    @abstractmethod
    def shown_candidates(self) -> list[ViewerCandidate]:
        """The likeliest answers, each with its text and its score, as the viewer lists them."""

    @abstractmethod
    def shown_texts(self) -> tuple[str, str]:
        """What the viewer shows as read, and as the answer."""

    def show(
        self,
        *,
        layer: int | None = None,
        head: int | None = None,
        every: bool = False,
        pieces: bool = False,
    ) -> RenderableType:
        """For the terminal: the answers, and a map in which rows attend to columns."""
        maps = self._last(MAX_SHOWN_WORDS, pieces=pieces)
        cut = f", only the last {len(maps.rows.pieces)} {'tokens' if pieces else 'words'}"
        shown = show_maps(maps, layer, head, every=every, note=cut if maps.omitted else "")
        return Group(*self.answers(), *shown)

    def plot(
        self,
        *,
        kind: PlotKind | None = None,
        layer: int | None = None,
        head: int | None = None,
        every: bool = False,
        pieces: bool = False,
        theme: ThemeName = "light",
    ) -> Figure:
        """A figure of one layer and head, by default the mean, or a grid of all; `kind` as in
        `AttentionCapture.plot`.
        """
        kind = kind or ("grid" if every else "map")
        if kind == "tree":
            raise SettingsError(f"tree: {self.no_tree}; draw it --as map, grid or arcs")
        capture = AttentionCapture({self.part: self._last(MAX_DRAWN_WORDS, pieces=pieces)})
        return capture.plot(self.part, kind=kind, layer=layer, head=head, words=False, theme=theme)

    def render(self, model: str, without: Sequence[HeadAblation]) -> str:
        document = viewer_document(self._shown_answer(), model=model, without=without)
        return render_page({**document, "kind": self.kind, "candidates": self.shown_candidates()})

    def _shown_answer(self) -> Answer:
        source, text = self.shown_texts()
        return Answer(
            source,
            (Candidate(text, 0.0, 0.0),),
            self.notes,
            self.attention,
            changes=self.changes,
            before=None if self.before is None else self.before._shown_answer(),
        )

    def look_json(self) -> dict[str, Any]:
        if self.attention is None:
            return {}
        maps = self.attention.attention(self.part, words=False)
        return {
            "before": None if self.before is None else str(self.before),
            "attention": {"pieces": list(maps.rows.pieces), **encode_maps(maps.without_scores())},
        }

    def _last(self, count: int, *, pieces: bool) -> AttentionMaps:
        """The maps of the last words or pieces."""
        return self.required_attention().attention(self.part, words=not pieces).last(count)


def tokens_html(tokens: Sequence[LikelyToken]) -> str:
    """Tokens with their probabilities, for a notebook."""
    return ", ".join(f"{escape(one.name)} {one.probability:.0%}" for one in tokens)
