"""The common base of looks into texts: likely tokens, and maps of a text's self-attention."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from html import escape
from itertools import product
from typing import Any, ClassVar, NamedTuple

from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.text import Text

from regard.engines.native.attention_capture import AttentionCapture, PlotKind
from regard.errors import SettingsError
from regard.inspection.plots.figure import ThemeName, notebook_html
from regard.inspection.plots.maps import MAX_DRAWN_WORDS, describe_head
from regard.inspection.recording.attention_map import AttentionMaps, Part
from regard.inspection.viewer.html_page import notebook_page, render_page
from regard.inspection.viewer.layer_maps import encode_maps
from regard.tasks.families.answer import Answer
from regard.tasks.families.viewer_document import DocumentKind, HeadAblation, viewer_document
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


class TextLook(ABC):
    """A text with its attention to itself, in the one part that the model has."""

    kind: ClassVar[DocumentKind]
    """The viewer's kind for looks of this class."""
    no_tree: ClassVar[str] = "the model answers without a search: there are no hypotheses"
    """Why a search tree cannot be drawn."""
    part: Part
    attention: AttentionCapture | None
    ablate: Callable[[], list[HeadAblation]]
    """The answer without each head, which a page can show."""
    before: "TextLook | None"  # without interventions

    @abstractmethod
    def answers(self) -> list[RenderableType]:
        """The answers that the terminal shows before the maps."""

    @abstractmethod
    def shown_candidates(self) -> list[dict[str, Any]]:
        """The likeliest answers, each with its text and its score, as the viewer lists them."""

    @abstractmethod
    def shown_answer(self) -> Answer:
        """The text, the best answer and the attention, as the viewer shows them."""

    @abstractmethod
    def text_html(self) -> str:
        """The HTML that a notebook shows before the attention."""

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
        counts = maps.weights.shape[:2]
        chosen = product(*map(range, counts)) if every else [(layer, head)]
        cut = f", only the last {len(maps.rows.pieces)} {'tokens' if pieces else 'words'}"
        lines = self.answers()
        for number, place in enumerate(chosen):
            title = describe_head(maps, *place) + (cut if maps.omitted else "")
            shown = AttentionCapture({self.part: maps}).show(
                self.part, layer=place[0], head=place[1], words=False
            )
            lines += [*([Text("")] if number else []), Text(title, "dim"), shown]
        return Group(*lines)

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

    def page(self, model: str) -> str:
        """One interactive offline page of the text, with every layer and head."""
        return self._page(model, self.ablate() if self.before is None else [])

    def _page(self, model: str, ablations: Sequence[HeadAblation]) -> str:
        document = viewer_document(self.shown_answer(), model=model, without=ablations)
        return render_page({**document, "kind": self.kind, "candidates": self.shown_candidates()})

    def look_json(self) -> dict[str, Any]:
        """The attention as plain values, weights in the viewer's format, and the answer without
        interventions.
        """
        maps = self.required_attention().attention(self.part, words=False)
        return {
            "before": None if self.before is None else str(self.before),
            "attention": {"pieces": list(maps.rows.pieces), **encode_maps(maps.without_scores())},
        }

    def _repr_html_(self) -> str:
        if self.attention is None:
            return self.text_html()
        picture = notebook_html(lambda theme: self.plot(theme=theme), alt="attention")
        return self.text_html() + notebook_page(self._page("", []), picture)

    def required_attention(self) -> AttentionCapture:
        """The attention, or an error if it was not recorded."""
        if self.attention is None:
            raise SettingsError("the attention was not recorded: use look(…)")
        return self.attention

    def _last(self, count: int, *, pieces: bool) -> AttentionMaps:
        """The maps of the last words or pieces."""
        return self.required_attention().attention(self.part, words=not pieces).last(count)


def tokens_html(tokens: Sequence[LikelyToken]) -> str:
    """Tokens with their probabilities, for a notebook."""
    return ", ".join(f"{escape(one.name)} {one.probability:.0%}" for one in tokens)
