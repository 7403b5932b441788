"""The attention of a model for its own translation, recorded under teacher forcing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Literal

from matplotlib.figure import Figure
from rich.console import RenderableType
from rich.text import Text

from regard.alignment.extraction import AlignmentSettings, align_text
from regard.alignment.run_alignment import best_alignment
from regard.batching.collate import pad, pad_source
from regard.decoding.tracing.search_tree import SearchTree
from regard.errors import SettingsError
from regard.inspection.attention_sinks import Sink, find_sinks
from regard.inspection.interventions import HeadCounts
from regard.inspection.plots.arcs import plot_arcs
from regard.inspection.plots.figure import ThemeName, notebook_html
from regard.inspection.plots.heads import plot_distances
from regard.inspection.plots.maps import describe_head, plot_focus, plot_grid, plot_map, view_map
from regard.inspection.plots.search_tree import plot_tree
from regard.inspection.plots.terminal import HeatMap
from regard.inspection.recording.attention_map import PARTS, AttentionMaps, Part
from regard.inspection.recording.recorder import record_attention
from regard.recipes.open_run import Run
from regard.text.preprocess import TokenizedLine
from regard.text.special_tokens import BOS, UNK, UNK_SURFACE
from regard.text.tokenizer import Tokenizer
from regard.types import AttentionHook, Hypothesis, Link

PlotKind = Literal["map", "grid", "arcs", "focus", "distance", "tree"]


@dataclass(frozen=True, eq=False, repr=False)
class AttentionCapture:
    """The attention of one sentence and its translation; a notebook displays it as a figure."""

    parts: Mapping[Part, AttentionMaps]
    tree: SearchTree | None = None  # all hypotheses of the search, if asked for
    tree_pieces: tuple[str, ...] = ()  # the piece of each of its nodes
    alignment_settings: AlignmentSettings = field(default_factory=AlignmentSettings)
    """How its alignment is extracted by default."""

    def __repr__(self) -> str:
        return f"<Look {', '.join(map(repr, self.parts.values())) or 'without attention'}>"

    @property
    def heads(self) -> HeadCounts:
        """The number of heads in each layer of each part."""
        shapes = {part: maps.weights.shape[:2] for part, maps in self.parts.items()}
        return {
            part: dict.fromkeys(range(layers), heads) for part, (layers, heads) in shapes.items()
        }

    def attention(self, part: Part = "cross", *, words: bool = True) -> AttentionMaps:
        """All layers and heads of a part, by words or by the model's pieces."""
        if part not in self.parts:
            has = ", ".join(self.parts) or "none"
            raise SettingsError(f"this model has no {part} attention to look at; it has: {has}")
        attention = self.parts[part]
        by_words = attention.merge_pieces() if words else attention
        # an empty translation has no words, only EOS
        return by_words if by_words.weights.numel() else attention

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
        """A figure of one layer and head, by default the average: `map` has a cell and `arcs` a
        line for each pair of words, `focus` names each word's most attended ones. Some show all
        heads: `grid` their maps, `distance` how far they attend. `tree` shows the search.
        """
        if kind == "tree":
            if self.tree is None:
                raise SettingsError("the search was not recorded: use look(…, tree=True)")
            return plot_tree(self.tree, self.tree_pieces, theme=theme)
        attention = self.attention(part, words=words)
        if kind == "grid":
            return plot_grid(attention, theme=theme)
        if kind == "distance":
            return plot_distances([attention], theme=theme)
        plot = {"map": plot_map, "arcs": plot_arcs, "focus": plot_focus}[kind]
        return plot(view_map(attention, layer, head), theme=theme)

    def show(
        self,
        part: Part = "cross",
        *,
        layer: int | None = None,
        head: int | None = None,
        words: bool = True,
    ) -> RenderableType:
        """A heat map for the terminal."""
        return _heat_map(self.attention(part, words=words), layer, head)

    def sinks(self, part: Part = "cross") -> tuple[Sink, ...]:
        """The attention sinks of a part's heads, the largest first."""
        return find_sinks(self.attention(part, words=False))

    def alignment(self, settings: AlignmentSettings | None = None) -> frozenset[Link]:
        """The linked words, or characters in scripts without spaces: (source, target), from 0."""
        return align_text(self.attention(words=False), settings or self.alignment_settings)

    def _repr_html_(self) -> str | None:
        """The figure in the notebook's theme; None if there is no attention."""
        part: Part | None = next((part for part in ("cross", *PARTS) if part in self.parts), None)
        if part is None:
            return None
        return notebook_html(lambda theme: self.plot(part, theme=theme), alt=f"{part} attention")

    def with_search_tree(self, tree: SearchTree, target: Tokenizer) -> "AttentionCapture":
        """A copy with the tree of the search that the translation came from."""
        pieces = target.pieces([node.token for node in tree.nodes])
        return replace(self, tree=tree, tree_pieces=tuple(pieces))


def show_maps(
    maps: AttentionMaps, layer: int | None, head: int | None, *, every: bool, note: str = ""
) -> Iterator[RenderableType]:
    """For the terminal: the map of one layer and head, or of all, each below its title, which
    `note` follows.
    """
    chosen = product(*map(range, maps.weights.shape[:2])) if every else [(layer, head)]
    for number, (one, other) in enumerate(chosen):
        if number:
            yield Text("")
        yield Text(describe_head(maps, one, other) + note, "dim")
        yield _heat_map(maps, one, other)


def _heat_map(maps: AttentionMaps, layer: int | None, head: int | None) -> HeatMap:
    return HeatMap(
        maps.select(layer, head),
        maps.rows.pieces,
        maps.columns.pieces,
        normalized=maps.normalized,
    )


def capture_attention(
    run: Run,
    line: TokenizedLine,
    n_best: Sequence[Sequence[Hypothesis]],
    hook: AttentionHook | None,
    *,
    scores: bool = False,
) -> tuple[tuple[AttentionCapture, ...], ...]:
    """The attention of a model for each of the n best translations of each part of a line; with
    `scores`, the best of each has queries and keys too.
    """
    settings = best_alignment(run)
    captures = []
    surfaces = line.surfaces(run.tokenizers.source)
    for ids, part_surfaces, hypotheses in zip(line.parts, surfaces, n_best, strict=True):
        words = zip(ids, part_surfaces, strict=True)
        unknown = [surface.strip() or UNK_SURFACE for i, surface in words if i == UNK]
        maps = (
            _record_maps(run, ids, one, unknown, hook, scores=scores and not rank)
            for rank, one in enumerate(hypotheses)
        )
        captures.append(tuple(AttentionCapture(one, alignment_settings=settings) for one in maps))
    return tuple(captures)


def _record_maps(
    run: Run,
    ids: Sequence[int],
    hypothesis: Hypothesis,
    unknown_source: Sequence[str],
    hook: AttentionHook | None,
    *,
    scores: bool,
) -> dict[Part, AttentionMaps]:
    """The maps of all parts of the model, with a translation of the tokens `ids`."""
    target = pad([hypothesis.tokens], first=BOS)
    source = pad_source([ids])
    recording = record_attention(run.model, source, target, hook=hook, scores=scores)
    recorded = {part for part, _ in recording.weights}
    unknown = hypothesis.replacements
    return {
        part: recording.attention(
            0, *run.tokenizers, part, unknown=unknown, unknown_source=unknown_source
        )
        for part in PARTS
        if part in recorded
    }
