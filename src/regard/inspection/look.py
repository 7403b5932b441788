"""What a model attended to when it made one translation, ready to be seen."""

import io
from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.figure import Figure
from rich.console import RenderableType

from regard.decoding.tree import SearchTree
from regard.errors import SettingsError
from regard.inspection.alignment import AlignmentSettings, align, by_word
from regard.inspection.plot import plot_attention, plot_grid
from regard.inspection.record import Attention, Part
from regard.inspection.terminal import heat_map
from regard.types import Link


@dataclass(frozen=True, eq=False)
class Look:
    """The attention of one sentence and its translation; in a notebook it shows itself."""

    parts: Mapping[Part, Attention]
    tree: SearchTree | None = None
    """All hypotheses that were weighed, if asked for."""
    tree_pieces: tuple[str, ...] = ()
    """What each of its nodes says last."""

    def attention(self, part: Part = "cross", *, words: bool = True) -> Attention:
        """All layers and heads of a part, by words or by the pieces that the model reads."""
        if part not in self.parts:
            has = ", ".join(self.parts) or "none"
            raise SettingsError(f"this model has no {part} attention to look at; it has: {has}")
        attention = self.parts[part]
        by_words = by_word(attention) if words else attention
        # an empty translation has no words: what is left to see is its end
        return by_words if by_words.layers.numel() else attention

    def plot(
        self,
        part: Part = "cross",
        *,
        layer: int | None = None,
        head: int | None = None,
        words: bool = True,
        grid: bool = False,
    ) -> Figure:
        """A figure of one map, by default the average; or of every layer and head in a grid."""
        attention = self.attention(part, words=words)
        if grid:
            return plot_grid(attention)
        return plot_attention(attention, layer=layer, head=head)

    def show(
        self,
        part: Part = "cross",
        *,
        layer: int | None = None,
        head: int | None = None,
        words: bool = True,
    ) -> RenderableType:
        """A heat map for the terminal."""
        attention = self.attention(part, words=words)
        return heat_map(
            attention.pick(layer, head), attention.rows.pieces, attention.columns.pieces
        )

    def alignment(self, settings: AlignmentSettings | None = None) -> frozenset[Link]:
        """Which source word each target word attended to."""
        return align(self.attention(words=False), settings or AlignmentSettings())

    def _repr_svg_(self) -> str:
        """What a notebook shows."""
        sheet = io.StringIO()
        self.plot().savefig(sheet, format="svg", bbox_inches="tight")
        return sheet.getvalue()
