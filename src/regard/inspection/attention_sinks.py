"""Attention that is parked: paid to the same piece whatever is asked, so that it means nothing.

A head that has nothing to look for must still give its attention somewhere, and learns a place
where it does no harm: the end of the sentence, a full stop, the first piece (Clark et al. 2019,
arXiv 1906.04341; Xiao et al. 2023, arXiv 2309.17453, call it a sink).
"""

from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from regard.inspection.recording.attention_map import AttentionMaps, Part
from regard.text.special_tokens import SPECIAL_PIECES

MIN_ROWS = 6
"""With fewer rows one cannot tell what all of them look at from what two of them look for."""
MIN_SINK_WEIGHT = 0.2
"""A column is a sink if at least half of the rows pay it this much of their attention."""


class Sink(NamedTuple):
    """A column of a head that attention is parked on."""

    part: Part
    layer: int
    head: int
    column: int
    piece: str
    share: float
    """Of all the attention that the rows have to give, what they give to this column."""


class SinkSummary(NamedTuple):
    """What a head parks on one piece, or on all words, in some sentences."""

    part: Part
    layer: int
    head: int
    piece: str
    """`</s>`, a sign such as `.`, or `WORDS` for all others together."""
    share: float
    """Of all that the head attends to in all the sentences, sinks or not."""
    sentences: int
    """In how many of them it is a sink."""


ORDINARY_WORDS = "words"
_SinkKey = tuple[Part, int, int, str]


def find_sinks(attention: AttentionMaps) -> tuple[Sink, ...]:
    """The sinks of one sentence, the largest first.

    A column is one if the median row that may see it pays it `FLOOR` or more: a word that is looked
    for is looked at by the few rows that need it. Fewer than `FEWEST_ROWS` rows tell nothing.
    """
    visible = _mask_future(attention)
    medians, shares = _median_weights(visible), visible.nanmean(-2)  # (L, H, S)
    part, pieces = attention.part, attention.columns.pieces
    found = [
        Sink(part, layer, head, column, pieces[column], float(shares[layer, head, column]))
        for layer, head, column in (medians >= MIN_SINK_WEIGHT).nonzero().tolist()
    ]
    return tuple(sorted(found, key=lambda sink: -sink.share))


def without_sinks(attention: AttentionMaps) -> AttentionMaps:
    """The attention less what is parked: a sink keeps what a row pays it above the median row.

    So a full stop is still seen by the row that answers it. Rows sum to less than 1.
    """
    medians = _median_weights(_mask_future(attention))  # (L, H, S)
    found_sinks = medians.where(medians >= MIN_SINK_WEIGHT, 0)[..., None, :]  # (L, H, 1, S)
    return replace(attention, layers=(attention.layers - found_sinks).clamp_min(0))


class SinkCounter:
    """Sums up, sentence by sentence, what each head parks on which piece."""

    def __init__(self) -> None:
        self._weight_sums: dict[_SinkKey, float] = defaultdict(float)
        self._sentence_counts: dict[_SinkKey, int] = defaultdict(int)
        self._row_counts: dict[Part, int] = defaultdict(int)
        self.sentences = 0
        """How many were counted."""

    def add(self, attention: AttentionMaps) -> None:
        """Count the sinks of one more sentence."""
        num_rows = len(attention.rows.pieces)
        self.sentences += 1
        self._row_counts[attention.part] += num_rows
        seen = set()
        for sink in find_sinks(attention):
            place = sink.part, sink.layer, sink.head, _piece_class(sink.piece)
            self._weight_sums[place] += sink.share * num_rows
            seen.add(place)
        for place in seen:
            self._sentence_counts[place] += 1

    def found_sinks(self) -> tuple[SinkSummary, ...]:
        """What was found so far, the largest share first."""
        found = [
            SinkSummary(
                *place,
                share=weight_sum / self._row_counts[place[0]],
                sentences=self._sentence_counts[place],
            )
            for place, weight_sum in self._weight_sums.items()
        ]
        return tuple(sorted(found, key=lambda found_sinks: -found_sinks.share))


def _mask_future(attention: AttentionMaps) -> Tensor:
    """The weights (L, H, T, S), NaN where a row of the decoder cannot see so far ahead."""
    weights = attention.layers
    if attention.part != "decoder":
        return weights
    unseen = torch.ones(weights.shape[-2:], dtype=torch.bool).triu(1)  # (T, S)
    return weights.masked_fill(unseen, torch.nan)


def _median_weights(visible: Tensor) -> Tensor:
    """What the median row that sees a column pays it, 0 where too few see it: (L, H, S)."""
    if not visible.numel():
        return visible.new_zeros(*visible.shape[:2], visible.shape[-1])
    has_enough_rows = (~visible.isnan()).sum(-2) >= MIN_ROWS  # (L, H, S)
    return visible.nanmedian(-2).values.where(has_enough_rows, 0)


def _piece_class(piece: str) -> str:
    """The piece itself if it is special or a mere sign, else `WORDS`."""
    if piece in SPECIAL_PIECES or not any(character.isalnum() for character in piece):
        return piece.strip("▁") or "▁"
    return ORDINARY_WORDS
