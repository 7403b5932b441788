"""What looks into texts that a model reads share: likely tokens, maps of the text to itself."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

from matplotlib.figure import Figure
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from regard.engines.native.attention_capture import AttentionCapture, PlotKind
from regard.errors import SettingsError
from regard.inspection.plots.figure import ThemeName
from regard.inspection.plots.maps import MAX_DRAWN_WORDS, describe_head
from regard.inspection.recording.attention_map import AttentionMaps, Part

MAX_SHOWN_WORDS = 40  # of a map in the terminal
SPACE, LINE_END = "▁", "<0x0A>"  # as `Tokenizer.pieces` has them


class LikelyToken(NamedTuple):
    """A token that may follow a text, or stand in a masked place of it."""

    piece: str
    probability: float
    before: float | None = None  # the probability without interventions

    @property
    def name(self) -> str:
        """The piece as people read it, as the viewer shows it."""
        if self.piece == LINE_END:
            return "↵"
        return self.piece.replace(SPACE, " ").strip() or "␣"


class TextLook(ABC):
    """A text with its attention to itself, in the one part that the model has."""

    part: Part
    attention: AttentionCapture | None

    @abstractmethod
    def answers(self) -> list[RenderableType]:
        """What the terminal shows before the maps."""

    def show(
        self,
        *,
        layer: int | None = None,
        head: int | None = None,
        every: bool = False,
        pieces: bool = False,
    ) -> RenderableType:
        """For the terminal: what the model says, and a map whose rows look at its columns."""
        maps = self._last(MAX_SHOWN_WORDS, pieces=pieces)
        counts = maps.weights.shape[:2]
        chosen = product(*map(range, counts)) if every else [(layer, head)]
        cut = f", the last {len(maps.rows.pieces)} {'tokens' if pieces else 'words'} alone"
        lines = self.answers()
        for place in chosen:
            title = describe_head(maps, *place) + (cut if maps.omitted else "")
            shown = AttentionCapture({self.part: maps}).show(
                self.part, layer=place[0], head=place[1], words=False
            )
            lines += [Text(title, "dim"), shown]
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
        """A figure of one layer and head, by default the mean, or a grid of every one; `kind` as
        in `AttentionCapture.plot`.
        """
        kind = kind or ("grid" if every else "map")
        if kind == "tree":
            raise SettingsError("tree: the hypotheses of a language model's search are not kept")
        capture = AttentionCapture({self.part: self._last(MAX_DRAWN_WORDS, pieces=pieces)})
        return capture.plot(self.part, kind=kind, layer=layer, head=head, words=False, theme=theme)

    def required_attention(self) -> AttentionCapture:
        """The attention, or an error if it was not recorded."""
        if self.attention is None:
            raise SettingsError("the attention was not recorded: ask for it with look(…)")
        return self.attention

    def _last(self, count: int, *, pieces: bool) -> AttentionMaps:
        """The maps of the last words or pieces."""
        return self.required_attention().attention(self.part, words=not pieces).last(count)


def token_table(tokens: Sequence[LikelyToken], *, changed: bool) -> Table:
    """Tokens with their probabilities, and those without interventions where it was `changed`."""
    table = Table(box=None, pad_edge=False)
    for column in ("token", "probability", *(["before"] if changed else [])):
        table.add_column(column, justify="left" if column == "token" else "right")
    for one in tokens:
        numbers = [one.probability, *([one.before or 0.0] if changed else [])]
        table.add_row(Text(one.piece), *(f"{number:.4f}" for number in numbers))
    return table
