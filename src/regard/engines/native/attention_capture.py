"""What a model attended to when it made one translation, ready to be seen."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from matplotlib.figure import Figure
from rich.console import RenderableType

from regard.alignment.extraction import AlignmentSettings, align_text, merge_pieces
from regard.decoding.tracing.search_tree import SearchTree
from regard.errors import SettingsError
from regard.inspection.attention_sinks import Sink, find_sinks
from regard.inspection.plots.arcs import plot_arcs
from regard.inspection.plots.focus import plot_focus
from regard.inspection.plots.head_distances import plot_distances
from regard.inspection.plots.maps import plot_attention, plot_grid
from regard.inspection.plots.notebook import notebook_html
from regard.inspection.plots.search_tree import plot_tree
from regard.inspection.plots.terminal_map import heat_map
from regard.inspection.plots.theme import ThemeName
from regard.inspection.recording.attention_map import PARTS, AttentionMaps, Part
from regard.types import Link

PlotKind = Literal["map", "grid", "arcs", "focus", "distance", "tree"]
SINGLE_MAP_PLOTS = {"map": plot_attention, "arcs": plot_arcs, "focus": plot_focus}
"""The kinds of figures that show one layer and head, or an average."""


@dataclass(frozen=True, eq=False, repr=False)
class AttentionCapture:
    """The attention of one sentence and its translation; in a notebook it shows itself."""

    parts: Mapping[Part, AttentionMaps]
    tree: SearchTree | None = None
    """All hypotheses that were weighed, if asked for."""
    tree_pieces: tuple[str, ...] = ()
    """What each of its nodes says last."""
    alignment_settings: AlignmentSettings = field(default_factory=AlignmentSettings)
    """How its alignment is read off, unless asked otherwise."""

    def __repr__(self) -> str:
        return f"<Look {', '.join(map(repr, self.parts.values())) or 'without attention'}>"

    def attention(self, part: Part = "cross", *, words: bool = True) -> AttentionMaps:
        """All layers and heads of a part, by words or by the pieces that the model reads."""
        if part not in self.parts:
            has = ", ".join(self.parts) or "none"
            raise SettingsError(f"this model has no {part} attention to look at; it has: {has}")
        attention = self.parts[part]
        by_words = merge_pieces(attention) if words else attention
        # an empty translation has no words: what is left to see is its end
        return by_words if by_words.layers.numel() else attention

    def plot(
        self,
        part: Part = "cross",
        *,
        kind: PlotKind = "map",
        layer: int | None = None,
        head: int | None = None,
        words: bool = True,
        theme: ThemeName = "light",
    ) -> Figure:
        """A figure of one layer and head, by default the average.

        A `map` has a cell and `arcs` a line for each pair of words, `focus` names what each word
        looked at most. The others show no single head: `grid` is every map of the part, `distance`
        how far each of its heads looks, `tree` the search that was made.
        """
        if kind == "tree":
            if self.tree is None:
                raise SettingsError("the search was not kept: ask for it with look(…, tree=True)")
            return plot_tree(self.tree, self.tree_pieces, theme=theme)
        attention = self.attention(part, words=words)
        if kind == "grid":
            return plot_grid(attention, theme=theme)
        if kind == "distance":
            return plot_distances([attention], theme=theme)
        return SINGLE_MAP_PLOTS[kind](attention, layer=layer, head=head, theme=theme)

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

    def sinks(self, part: Part = "cross") -> tuple[Sink, ...]:
        """Where heads of a part park their attention, whatever is asked; the largest first."""
        return find_sinks(self.attention(part, words=False))

    def alignment(self, settings: AlignmentSettings | None = None) -> frozenset[Link]:
        """Which source words and target words belong together: (source, target), from 0.

        In scripts without spaces single letters: they are counted as `split_units` divides texts.
        """
        return align_text(self.attention(words=False), settings or self.alignment_settings)

    def _repr_html_(self) -> str | None:
        """What a notebook shows, in its own theme; None where there is nothing to see."""
        part: Part | None = next((part for part in ("cross", *PARTS) if part in self.parts), None)
        if part is None:
            return None
        return notebook_html(lambda theme: self.plot(part, theme=theme), alt=f"{part} attention")
