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

from regard.inspection.record import Attention, Part
from regard.text.special import SPECIAL_PIECES

FEWEST_ROWS = 6
"""With fewer rows one cannot tell what all of them look at from what two of them look for."""
FLOOR = 0.2
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


class Parked(NamedTuple):
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


WORDS = "words"
_Place = tuple[Part, int, int, str]


def find_sinks(attention: Attention) -> tuple[Sink, ...]:
    """The sinks of one sentence, the largest first.

    A column is one if the median row that may see it pays it `FLOOR` or more: a word that is looked
    for is looked at by the few rows that need it. Fewer than `FEWEST_ROWS` rows tell nothing.
    """
    visible = _visible(attention)
    floors, shares = _floors(visible), visible.nanmean(-2)  # (L, H, S)
    part, pieces = attention.part, attention.columns.pieces
    found = [
        Sink(part, layer, head, column, pieces[column], float(shares[layer, head, column]))
        for layer, head, column in (floors >= FLOOR).nonzero().tolist()
    ]
    return tuple(sorted(found, key=lambda sink: -sink.share))


def without_sinks(attention: Attention) -> Attention:
    """The attention less what is parked: a sink keeps what a row pays it above the median row.

    So a full stop is still seen by the row that answers it. Rows sum to less than 1.
    """
    floors = _floors(_visible(attention))  # (L, H, S)
    parked = floors.where(floors >= FLOOR, 0)[..., None, :]  # (L, H, 1, S)
    return replace(attention, layers=(attention.layers - parked).clamp_min(0))


class SinkTally:
    """Sums up, sentence by sentence, what each head parks on which piece."""

    def __init__(self) -> None:
        self._paid: dict[_Place, float] = defaultdict(float)
        self._times: dict[_Place, int] = defaultdict(int)
        self._rows: dict[Part, int] = defaultdict(int)
        self.sentences = 0
        """How many were counted."""

    def add(self, attention: Attention) -> None:
        """Count the sinks of one more sentence."""
        num_rows = len(attention.rows.pieces)
        self.sentences += 1
        self._rows[attention.part] += num_rows
        seen = set()
        for sink in find_sinks(attention):
            place = sink.part, sink.layer, sink.head, _kind(sink.piece)
            self._paid[place] += sink.share * num_rows
            seen.add(place)
        for place in seen:
            self._times[place] += 1

    def parked(self) -> tuple[Parked, ...]:
        """What was found so far, the largest share first."""
        found = [
            Parked(*place, share=paid / self._rows[place[0]], sentences=self._times[place])
            for place, paid in self._paid.items()
        ]
        return tuple(sorted(found, key=lambda parked: -parked.share))


def _visible(attention: Attention) -> Tensor:
    """The weights (L, H, T, S), NaN where a row of the decoder cannot see so far ahead."""
    weights = attention.layers
    if attention.part != "decoder":
        return weights
    unseen = torch.ones(weights.shape[-2:], dtype=torch.bool).triu(1)  # (T, S)
    return weights.masked_fill(unseen, torch.nan)


def _floors(visible: Tensor) -> Tensor:
    """What the median row that sees a column pays it, 0 where too few see it: (L, H, S)."""
    if not visible.numel():
        return visible.new_zeros(*visible.shape[:2], visible.shape[-1])
    enough = (~visible.isnan()).sum(-2) >= FEWEST_ROWS  # (L, H, S)
    return visible.nanmedian(-2).values.where(enough, 0)


def _kind(piece: str) -> str:
    """The piece itself if it is special or a mere sign, else `WORDS`."""
    if piece in SPECIAL_PIECES or not any(letter.isalnum() for letter in piece):
        return piece.strip("▁") or "▁"
    return WORDS
