"""Which source word a target word came from, read off cross attention."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Annotated, Literal, NamedTuple

import torch
from pydantic import Field, NonNegativeInt
from torch import Tensor

from regard.alignment.symmetrization import Symmetrization, flip, symmetrize
from regard.inspection.attention_sinks import without_sinks
from regard.inspection.recording.attention_map import AttentionMaps, Axis
from regard.settings import Settings
from regard.types import Link

LinkExtraction = Literal["rows", "columns", Symmetrization]


class AlignmentSettings(Settings):
    """Which attention is taken for an alignment, and how links are read off it."""

    layer: NonNegativeInt | None = None
    """The layer, counted from 0; none: the average over all."""
    head: NonNegativeInt | None = None
    """The head, counted from 0; none: the average over all."""
    shift: bool = False
    """Whether a word is read at the step that is given it, not at the one that answers it.

    The deeper layers of a Transformer often look back at the source of the word they were given.
    """
    sinks: bool = False
    """Whether attention counts that is parked, whatever is asked: see `inspection.sinks`."""
    shares: bool = False
    """Whether a weight counts by its share of its row times its share of its column.

    So a source word that all target words glance at loses to one that a single one looks at. Shares
    are taken in each head, and twice again in the average of heads.
    """
    links: LinkExtraction = "rows"
    """How links are read off: `rows` takes the best source word of each target word, `columns` the
    best target word of each source word, and the others make one alignment of these two."""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """A link needs more than this share of what its target word pays to all source words; read by
    columns, of what its source word gets from all target words."""

    def __str__(self) -> str:
        layer = "the average of all layers" if self.layer is None else f"layer {self.layer}"
        head = "the average of all heads" if self.head is None else f"head {self.head}"
        both = self.layer is None and self.head is None
        shown = ["the average of all layers and heads" if both else f"{layer}, {head}"]
        shown += ["shifted"] * self.shift + ["by shares"] * self.shares
        shown += ["with its sinks"] * self.sinks
        return ", ".join(shown if self.links == "rows" else [*shown, self.links])


BASELINE_ALIGNMENT = AlignmentSettings(sinks=True)
"""What is usual: the average of all layers and heads, each target word's best source word."""
DEFAULT_ALIGNMENT = AlignmentSettings(shares=True, links="grow-diag")
"""The best guess for a model that no choice was measured for."""


def align(attention: AttentionMaps, settings: AlignmentSettings) -> frozenset[Link]:
    """The links of one sentence, between the words of its attention.

    What goes to `</s>`, where a head looks when it has nothing to look for, does not count.
    """
    return extract_links(word_map(attention, settings), settings.links, settings.threshold)


def align_text(attention: AttentionMaps, settings: AlignmentSettings) -> frozenset[Link]:
    """The links of one sentence, between the units of its texts, as `split_units` divides them.

    These are its words, save in scripts without spaces: of two words that are linked, each letter
    of one is linked with each of the other.
    """
    links = align(attention, settings)
    return expand_links(links, attention.columns.sizes, attention.rows.sizes)


def expand_links(
    links: frozenset[Link], columns: Sequence[int], rows: Sequence[int]
) -> frozenset[Link]:
    """Links between words as links between the units that they are made of, so many each."""
    if len(columns) == sum(columns) and len(rows) == sum(rows):
        return links
    forward_map, backward_map = ([*accumulate(sizes, initial=0)] for sizes in (columns, rows))
    return frozenset(
        (source, target)
        for column, row in links
        for source in range(forward_map[column], forward_map[column + 1])
        for target in range(backward_map[row], backward_map[row + 1])
    )


def align_averaged(
    forward: AttentionMaps,
    backward: AttentionMaps,
    settings: tuple[AlignmentSettings, AlignmentSettings],
    how: LinkExtraction = "grow-diag",
) -> frozenset[Link]:
    """The links of one sentence by two models, source to target and back: their maps are averaged.

    `backward` has the target along its columns. Both maps count by shares, whatever the settings
    say, so that they are of one scale. The links are between the units of the texts.
    """
    forward_map, backward_map = (
        word_map(attention, each.model_copy(update={"shares": True}))
        for attention, each in zip((forward, backward), settings, strict=True)
    )
    rows = _common_spans(forward.rows, backward.columns)
    columns = _common_spans(forward.columns, backward.rows)
    forward_map = forward_map[rows.first][:, columns.first]  # (T", S")
    backward_map = backward_map.mT[rows.second][:, columns.second]  # (T", S")
    return expand_links(
        extract_links((forward_map + backward_map) / 2, how), columns.sizes, rows.sizes
    )


class _CommonSpans(NamedTuple):
    """A text cut where either of two models begins a word."""

    sizes: list[int]
    """The units of each part."""
    first: list[int]
    """The word of the first model that each part is in."""
    second: list[int]


def _common_spans(first: Axis, second: Axis) -> _CommonSpans:
    """The parts of a text whose words, read by two models, are of other sizes."""
    ends = [list(accumulate(axis.sizes)) for axis in (first, second)]
    boundaries = sorted({*ends[0], *ends[1]})
    sizes = [last - begin for begin, last in pairwise([0, *boundaries])]
    words = ([bisect_left(some, cut) for cut in boundaries] for some in ends)
    return _CommonSpans(sizes, *words)


def word_map(attention: AttentionMaps, settings: AlignmentSettings) -> Tensor:
    """How much each target word and each source word have to do with each other: (T', S')."""
    cleaned = attention if settings.sinks else without_sinks(attention)
    words = merge_pieces(cleaned, shift=settings.shift)
    if not settings.shares:
        return words.pick(settings.layer, settings.head)  # (T', S')
    return select_normalized(words, [(settings.layer, settings.head)])[0]  # (T', S')


def select_normalized(
    words: AttentionMaps, places: Iterable[tuple[int | None, int | None]]
) -> Tensor:
    """A map for each layer and head, or average, among `places`, by shares: (C, T', S')."""
    normalized = replace(words, layers=normalize_rows_columns(words.layers))
    maps = torch.stack([normalized.pick(*place) for place in places])  # (C, T', S')
    return normalize_rows_columns(normalize_rows_columns(maps))


def normalize_rows_columns(weights: Tensor) -> Tensor:
    """Each weight's share of its row times its share of its column: (..., T, S)."""
    tiny = torch.finfo(weights.dtype).tiny  # a row or column of zeros stays one
    rows, columns = weights.sum(-1, keepdim=True), weights.sum(-2, keepdim=True)
    return weights / rows.clamp_min(tiny) * (weights / columns.clamp_min(tiny))


def extract_links(weights: Tensor, how: LinkExtraction, threshold: float = 0.0) -> frozenset[Link]:
    """The links of a map (T, S), as (column, row)."""
    if how == "rows":
        return argmax_links(weights, threshold)
    by_column = flip(argmax_links(weights.mT, threshold))
    if how == "columns":
        return by_column
    return symmetrize(argmax_links(weights, threshold), by_column, how)


def merge_pieces(attention: AttentionMaps, *, shift: bool = False) -> AttentionMaps:
    """The attention between words: pieces of a column's word are summed, those of a row's averaged.

    Rows and columns that belong to no word are left out, so a row may sum to less than 1.
    """
    word_of = attention.rows.word_of
    if shift:
        word_of = (None, *word_of[:-1])
    rows = _membership(word_of, len(attention.rows.words))  # (T, T')
    columns = _membership(attention.columns.word_of, len(attention.columns.words))  # (S, S')
    means = rows / rows.sum(0).clamp_min(1)  # (T, T')
    layers = means.mT @ attention.layers @ columns  # (L, H, T', S')
    return AttentionMaps(
        attention.part,
        layers,
        _word_level_axis(attention.rows),
        _word_level_axis(attention.columns),
    )


def argmax_links(weights: Tensor, threshold: float = 0.0) -> frozenset[Link]:
    """For each row of `weights` (T, S) its best column, as (column, row).

    A row that gives its best column no more than `threshold` of its sum has no link.
    """
    if not weights.numel():
        return frozenset()
    maxima, best = weights.max(-1)  # (T,)
    above_threshold = maxima > threshold * weights.sum(-1)  # (T,)
    rows = above_threshold.nonzero().flatten()  # (T',)
    return frozenset(zip(best[rows].tolist(), rows.tolist(), strict=True))


def _membership(word_of: Sequence[int | None], words: int) -> Tensor:
    """1 where a piece belongs to a word: (pieces, words)."""
    matrix = torch.zeros(len(word_of), words)
    places = [(piece, word) for piece, word in enumerate(word_of) if word is not None]
    if places:
        matrix[tuple(torch.tensor(places).mT)] = 1
    return matrix


def _word_level_axis(axis: Axis) -> Axis:
    return Axis(axis.words, axis.words, tuple(range(len(axis.words))), axis.units)
