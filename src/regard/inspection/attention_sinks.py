"""Attention sinks: positions that most rows attend to, whatever the query (Clark et al. 2019, arXiv
1906.04341; Xiao et al. 2023, arXiv 2309.17453). A head that needs nothing from the context learns
to place its weights where they have little effect: on EOS, a full stop, the first piece.
"""

from collections import Counter, defaultdict
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.inspection.recording.attention_map import AttentionMaps, Part
from regard.text.special_tokens import SPECIAL_PIECES

MIN_ROWS = 6  # with fewer rows, the median of a column is too uncertain to call it a sink
MIN_SINK_WEIGHT = 0.2  # a column is a sink if the median of its weights is at least this
ORDINARY_WORDS = "words"


class Sink(NamedTuple):
    """A column of a head that is an attention sink."""

    part: Part
    layer: int
    head: int
    column: int
    piece: str
    share: float  # the mean weight of the column, over the rows that may see it


class SinkSummary(NamedTuple):
    """The sinks of a head on one piece, or on all ordinary words, over some sentences."""

    part: Part
    layer: int
    head: int
    piece: str  # `</s>`, punctuation such as `.`, or `ORDINARY_WORDS` for all others together
    share: float  # the mean weight of such columns, over the rows of all sentences
    sentences: int  # the number of sentences in which it is a sink


def find_sinks(attention: AttentionMaps) -> tuple[Sink, ...]:
    """The sinks of one sentence, the largest share first: columns whose median over the rows that
    may see them is at least `MIN_SINK_WEIGHT`. Informative words have large weights in few rows.
    """
    visible = _mask_future(attention)
    medians, shares = _median_weights(visible), visible.nanmean(-2)  # (L, H, S)
    part, pieces = attention.part, attention.columns.pieces
    sinks = [
        Sink(part, layer, head, column, pieces[column], float(shares[layer, head, column]))
        for layer, head, column in (medians >= MIN_SINK_WEIGHT).nonzero().tolist()
    ]
    return tuple(sorted(sinks, key=lambda sink: -sink.share))


def without_sinks(attention: AttentionMaps) -> AttentionMaps:
    """The attention minus the median of each sink's column, at least 0: rows sum to less than 1.

    Thus the row that predicts a full stop still attends to it.
    """
    medians = _median_weights(_mask_future(attention))  # (L, H, S)
    sinks = medians.where(medians >= MIN_SINK_WEIGHT, 0)[..., None, :]  # (L, H, 1, S)
    return replace(attention, weights=(attention.weights - sinks).clamp_min(0))


class SinkCounter:
    """Sums up the sinks of each head by piece, over sentences."""

    def __init__(self) -> None:
        self._weight_sums: defaultdict[tuple[Part, int, int, str], float] = defaultdict(float)
        self._sentence_counts: Counter[tuple[Part, int, int, str]] = Counter()
        self._row_counts: Counter[Part] = Counter()
        self.sentences = 0  # the number of sentences counted

    def add(self, attention: AttentionMaps) -> None:
        """Count the sinks of one more sentence."""
        num_rows, sinks = len(attention.rows.pieces), find_sinks(attention)
        self.sentences += 1
        self._row_counts[attention.part] += num_rows
        keys = [(sink.part, sink.layer, sink.head, _piece_class(sink.piece)) for sink in sinks]
        for key, sink in zip(keys, sinks, strict=True):
            self._weight_sums[key] += sink.share * num_rows
        self._sentence_counts.update(set(keys))

    def summaries(self) -> tuple[SinkSummary, ...]:
        """The sinks so far, the largest share first."""
        summaries = [
            SinkSummary(*key, weight_sum / self._row_counts[key[0]], self._sentence_counts[key])
            for key, weight_sum in self._weight_sums.items()
        ]
        return tuple(sorted(summaries, key=lambda summary: -summary.share))


def _mask_future(attention: AttentionMaps) -> Tensor:
    """The weights (L, H, T, S), NaN where the causal mask hides a column from a decoder row."""
    weights = attention.weights
    if attention.part != "decoder":
        return weights
    hidden = torch.ones(weights.shape[-2:], dtype=torch.bool).triu(1)  # (T, S)
    return weights.masked_fill(hidden, torch.nan)


def _median_weights(visible: Tensor) -> Tensor:
    """The median of each column over the rows that see it, 0 if these are too few: (L, H, S)."""
    if not visible.numel():
        return visible.new_zeros(*visible.shape[:2], visible.shape[-1])
    has_enough_rows = (~visible.isnan()).sum(-2) >= MIN_ROWS  # (L, H, S)
    return visible.nanmedian(-2).values.where(has_enough_rows, 0)


def _piece_class(piece: str) -> str:
    """The piece itself if it is special or punctuation, else `ORDINARY_WORDS`."""
    if piece in SPECIAL_PIECES or not any(character.isalnum() for character in piece):
        return piece.strip("▁") or "▁"
    return ORDINARY_WORDS
