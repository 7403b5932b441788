"""Word alignments extracted from cross attention."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeInt
from torch import Tensor

from regard.alignment.symmetrization import Symmetrization, flip, symmetrize
from regard.inspection.attention_sinks import without_sinks
from regard.inspection.recording.attention_map import AttentionMaps
from regard.settings import Settings
from regard.types import Link

LinkExtraction = Literal["rows", "columns", Symmetrization]


class AlignmentSettings(Settings):
    """Which attention an alignment is extracted from, and how."""

    layer: NonNegativeInt | None = None
    """The layer, counted from 0; none: the average over all."""
    head: NonNegativeInt | None = None
    """The head, counted from 0; none: the average over all."""
    shift: bool = False
    """Whether a target word is aligned by the step at which it is the decoder's input, instead of
    the step that predicts it. Deeper layers of a Transformer often attend to the source word of
    their input."""
    sinks: bool = False
    """Whether attention to sinks counts: see `inspection.attention_sinks`."""
    shares: bool = False
    """Whether weights are normalized: each becomes its share of its row times its share of its
    column.

    A source word with some weight from all target words then loses to one with weight from a single
    target word. This is done in each head, and twice again in the average of heads.
    """
    links: LinkExtraction = "rows"
    """How links are extracted: `rows` takes the best source word of each target word, `columns` the
    best target word of each source word, and the others symmetrize these two."""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """A link needs more than this share of its target word's weights on all source words or, for
    `columns`, of its source word's weights from all target words."""

    def __str__(self) -> str:
        layer = "the average of all layers" if self.layer is None else f"layer {self.layer}"
        head = "the average of all heads" if self.head is None else f"head {self.head}"
        both = self.layer is None and self.head is None
        shown = ["the average of all layers and heads" if both else f"{layer}, {head}"]
        shown += ["shifted"] * self.shift + ["by shares"] * self.shares
        shown += ["with its sinks"] * self.sinks
        return ", ".join(shown if self.links == "rows" else [*shown, self.links])


BASELINE_ALIGNMENT = AlignmentSettings(sinks=True)
"""The usual baseline: the average of all layers and heads, each target word's best source word."""
DEFAULT_ALIGNMENT = AlignmentSettings(shares=True, links="grow-diag")  # if none was selected


def align(attention: AttentionMaps, settings: AlignmentSettings) -> frozenset[Link]:
    """The links between the words of one sentence and its translation, without BOS and EOS."""
    return extract_links(word_map(attention, settings), settings.links, settings.threshold)


def align_text(attention: AttentionMaps, settings: AlignmentSettings) -> frozenset[Link]:
    """The links between words; in scripts without spaces, between all characters of the words."""
    links = align(attention, settings)
    return expand_links(links, attention.columns.sizes, attention.rows.sizes)


def expand_links(
    links: frozenset[Link], columns: Sequence[int], rows: Sequence[int]
) -> frozenset[Link]:
    """Links between words as links between their units, given the number of units in each word."""
    if len(columns) == sum(columns) and len(rows) == sum(rows):
        return links
    sources, targets = ([*accumulate(sizes, initial=0)] for sizes in (columns, rows))
    return frozenset(
        (source, target)
        for column, row in links
        for source in range(sources[column], sources[column + 1])
        for target in range(targets[row], targets[row + 1])
    )


def align_averaged(
    forward: AttentionMaps,
    backward: AttentionMaps,
    settings: tuple[AlignmentSettings, AlignmentSettings],
) -> frozenset[Link]:
    """The links, between units of the texts, from the average of two models' maps, source to target
    and back. `backward` has the target along its columns; both maps are normalized to one scale.
    """
    maps = [
        word_map(attention, chosen.model_copy(update={"shares": True}))
        for attention, chosen in zip((forward, backward), settings, strict=True)
    ]
    row_sizes, rows, back_columns = _common_spans(forward.rows.sizes, backward.columns.sizes)
    column_sizes, columns, back_rows = _common_spans(forward.columns.sizes, backward.rows.sizes)
    forward_map = maps[0][rows][:, columns]  # (T", S")
    backward_map = maps[1].mT[back_columns][:, back_rows]  # (T", S")
    links = extract_links((forward_map + backward_map) / 2, "grow-diag")
    return expand_links(links, column_sizes, row_sizes)


def _common_spans(
    first: Sequence[int], second: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Spans between the word ends of two models: their sizes, and the words that they are in."""
    ends = [list(accumulate(sizes)) for sizes in (first, second)]
    boundaries = sorted({*ends[0], *ends[1]})
    sizes = [last - begin for begin, last in pairwise([0, *boundaries])]
    words = [[bisect_left(word_ends, end) for end in boundaries] for word_ends in ends]
    return sizes, words[0], words[1]


def word_map(attention: AttentionMaps, settings: AlignmentSettings) -> Tensor:
    """The weights between target words and source words: (T', S')."""
    cleaned = attention if settings.sinks else without_sinks(attention)
    words = cleaned.merge_pieces(shift=settings.shift)
    if not settings.shares:
        return words.select(settings.layer, settings.head)  # (T', S')
    return select_normalized(words, [(settings.layer, settings.head)])[0]  # (T', S')


def select_normalized(
    words: AttentionMaps, places: Iterable[tuple[int | None, int | None]]
) -> Tensor:
    """The normalized map of each layer and head, or average, in `places`: (C, T', S')."""
    normalized = replace(words, weights=normalize_rows_columns(words.weights))
    maps = torch.stack([normalized.select(*place) for place in places])  # (C, T', S')
    return normalize_rows_columns(normalize_rows_columns(maps))


def normalize_rows_columns(weights: Tensor) -> Tensor:
    """Each weight's share of its row times its share of its column: (..., T, S)."""
    tiny = torch.finfo(weights.dtype).tiny  # rows and columns of zeros stay zeros
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


def argmax_links(weights: Tensor, threshold: float = 0.0) -> frozenset[Link]:
    """The best column of each row of `weights` (T, S), as (column, row); none for a row whose best
    weight is not above `threshold` times its sum.
    """
    if not weights.numel():
        return frozenset()
    maxima, best = weights.max(-1)  # (T,)
    rows = (maxima > threshold * weights.sum(-1)).nonzero().flatten()  # (T',)
    return frozenset(zip(best[rows].tolist(), rows.tolist(), strict=True))
