"""Which source word a target word came from, read off cross attention."""

from collections.abc import Callable, Iterator, Sequence, Set
from typing import Annotated, NamedTuple

import torch
from pydantic import Field, NonNegativeInt
from torch import Tensor

from regard.errors import CorpusError
from regard.inspection.record import Attention, Axis
from regard.settings import Settings
from regard.types import Link


class AlignmentSettings(Settings):
    """Which attention is taken for an alignment, and how."""

    layer: NonNegativeInt | None = None
    """The layer, counted from 0; none: the average over all."""
    head: NonNegativeInt | None = None
    """The head, counted from 0; none: the average over all."""
    shift: bool = False
    """Whether a word is read at the step that is given it, not at the one that answers it.

    The deeper layers of a Transformer often look back at the source of the word they were given.
    """
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """A link needs more than this share of what its target word pays to all source words."""

    def __str__(self) -> str:
        layer = "the average of all layers" if self.layer is None else f"layer {self.layer}"
        head = "the average of all heads" if self.head is None else f"head {self.head}"
        both = self.layer is None and self.head is None
        shown = "the average of all layers and heads" if both else f"{layer}, {head}"
        return f"{shown}, shifted" if self.shift else shown


class Choice(NamedTuple):
    """The settings that fit best, and how far off they still are."""

    settings: AlignmentSettings
    error: float


def align(attention: Attention, settings: AlignmentSettings) -> frozenset[Link]:
    """The links of one sentence: each target word and the source word it looks at most.

    What goes to `</s>`, where a head looks when it has nothing to look for, does not count.
    """
    words = by_word(attention, shift=settings.shift)
    return link(words.pick(settings.layer, settings.head), settings.threshold)


def by_word(attention: Attention, *, shift: bool = False) -> Attention:
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
    return Attention(
        attention.part, layers, _words_of(attention.rows), _words_of(attention.columns)
    )


def link(weights: Tensor, threshold: float = 0.0) -> frozenset[Link]:
    """For each row of `weights` (T, S) its best column, as (column, row).

    A row that gives its best column no more than `threshold` of its sum has no link.
    """
    if not weights.numel():
        return frozenset()
    peaks, best = weights.max(-1)  # (T,)
    clear = peaks > threshold * weights.sum(-1)  # (T,)
    return frozenset((int(best[row]), int(row)) for row in clear.nonzero().flatten())


def choose(
    attentions: Sequence[Attention],
    error: Callable[[Sequence[frozenset[Link]]], float],
    *,
    threshold: float = 0.0,
) -> Choice:
    """The layer, head and shift whose links have the lowest `error` over some sentences.

    `error` gets the links of all of them, in order, and compares them with what it knows. Of
    equals the first wins: averages before single heads, and each unshifted before shifted.
    """
    if not attentions:
        raise CorpusError("choosing an alignment head needs at least one sentence, found none")
    words = {shift: [by_word(each, shift=shift) for each in attentions] for shift in (False, True)}
    choices = []
    for layer, head in _candidates(*attentions[0].layers.shape[:2]):
        for shift, sentences in words.items():
            links = [link(each.pick(layer, head), threshold) for each in sentences]
            settings = AlignmentSettings(layer=layer, head=head, shift=shift, threshold=threshold)
            choices.append(Choice(settings, error(links)))
    return min(choices, key=lambda choice: choice.error)


def intersect(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """The links that both directions found."""
    return frozenset(forward & backward)


def union(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """The links that either direction found."""
    return frozenset(forward | backward)


def grow_diag(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """The intersection, grown into the union (Koehn et al. 2005).

    A link of the union joins when it touches a link that is in, straight or at a corner, and one
    of its words has no link yet. Both directions are given as (source, target).
    """
    both = forward | backward
    grown = set(forward & backward)
    sources, targets = {s for s, _ in grown}, {t for _, t in grown}
    growing = True
    while growing:
        growing = False
        for place in sorted(grown):
            for near in _neighbours(place):
                bare = near[0] not in sources or near[1] not in targets
                if near in both and near not in grown and bare:
                    grown.add(near)
                    sources.add(near[0])
                    targets.add(near[1])
                    growing = True
    return frozenset(grown)


def _candidates(layers: int, heads: int) -> Iterator[tuple[int | None, int | None]]:
    """The average, each layer, each head; an only layer or an only head is not named twice."""
    yield None, None
    if layers > 1:
        yield from ((layer, None) for layer in range(layers))
    if heads > 1:
        yield from ((layer, head) for layer in range(layers) for head in range(heads))


def _neighbours(place: Link) -> Iterator[Link]:
    """The four beside it, then the four at its corners."""
    steps = (-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)
    yield from ((place[0] + down, place[1] + right) for down, right in steps)


def _membership(word_of: Sequence[int | None], words: int) -> Tensor:
    """1 where a piece belongs to a word: (pieces, words)."""
    matrix = torch.zeros(len(word_of), words)
    for piece, word in enumerate(word_of):
        if word is not None:
            matrix[piece, word] = 1
    return matrix


def _words_of(axis: Axis) -> Axis:
    return Axis(axis.words, axis.words, tuple(range(len(axis.words))))
