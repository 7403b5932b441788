"""Which layer, head and reading align best, measured: by gold links, or by how two models agree."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.evaluation.alignment_error import error_rate, score_alignments
from regard.evaluation.metrics import check_lines
from regard.inspection.alignment import (
    PLAIN,
    UNMEASURED,
    AlignmentSettings,
    align_text,
    by_word,
    link,
    pick_by_shares,
    spread_links,
)
from regard.inspection.record import Attention
from regard.inspection.sinks import without_sinks
from regard.inspection.symmetrize import SYMMETRIES, flip, symmetrize
from regard.nouns import GoldAlignment, Link

FINALISTS = 4
"""Maps whose links are read off in every way; all others are only read by rows."""


class Choice(NamedTuple):
    """The settings that fit best, and how far off they still are."""

    settings: AlignmentSettings
    error: float


class Agreement(NamedTuple):
    """The settings of two models, source to target and back, whose links agree most."""

    forward: AlignmentSettings
    backward: AlignmentSettings
    value: float
    """2 |A ∩ B| / (|A| + |B|) for the links A and B of the two, over all sentences (Dice)."""


def choose_by_gold(attentions: Sequence[Attention], gold: Sequence[GoldAlignment]) -> Choice:
    """The settings whose links have the lowest alignment error rate over some sentences.

    Every layer, head and average, shifted or not, is read by rows; the links of the best few and of
    the plain average are then read off in every way. Of equals the first wins: averages before
    single heads, and each unshifted before shifted.
    """
    check_lines(attentions=attentions, gold_alignments=gold)
    views = _views(attentions[0])
    counts = torch.zeros(3, len(views))  # links, sure ones hit, possible ones hit
    for attention, truth in zip(attentions, gold, strict=True):
        found = _unit_links(attention)  # (C, T', S')
        sure, possible = (_matrix(links, found) for links in truth)  # (T', S')
        counts += torch.stack([(found & which).sum((-1, -2)) for which in (found, sure, possible)])
    num_sure = sum(len(truth.sure) for truth in gold)
    errors = [
        error_rate(num_links=links, num_sure=num_sure, hit_sure=sure, hit_possible=possible)
        for links, sure, possible in counts.mT.tolist()
    ]
    best = sorted(range(len(views)), key=errors.__getitem__)[:FINALISTS]
    links = _read_in_every_way(attentions, [views[number] for number in best])
    links = {PLAIN: [align_text(each, PLAIN) for each in attentions], **links}
    scored = [Choice(way, score_alignments(each, gold).error_rate) for way, each in links.items()]
    return min(scored, key=lambda choice: choice.error)


def _read_in_every_way(
    attentions: Sequence[Attention], views: Sequence["_View"]
) -> dict[AlignmentSettings, list[frozenset[Link]]]:
    """The links of all sentences in every reading of some maps; each map is made but once."""
    found: dict[AlignmentSettings, list[frozenset[Link]]] = defaultdict(list)
    for attention in attentions:
        seen = without_sinks(attention)
        for view in views:
            words, place = by_word(seen, shift=view.shift), (view.layer, view.head)
            for shares in (False, True):
                weights = pick_by_shares(words, [place])[0] if shares else words.pick(*place)
                links = link(weights), flip(link(weights.mT))  # of (T', S')
                sizes = attention.columns.sizes, attention.rows.sizes
                rows, columns = (spread_links(each, *sizes) for each in links)
                way = view.settings.model_copy(update={"shares": shares, "links": "rows"})
                found[way].append(rows)
                for how in SYMMETRIES:
                    joined = symmetrize(rows, columns, how)
                    found[way.model_copy(update={"links": how})].append(joined)
    return found


def choose_by_agreement(forward: Sequence[Attention], backward: Sequence[Attention]) -> Agreement:
    """The settings of two models whose links agree most; no gold is needed.

    `backward` are the same sentences the other way round. One model gives each target word its best
    source word, the other each source word its best target word: whatever either does out of habit,
    such as parking its attention or looking where a word stands, the other does not confirm.
    """
    check_lines(forward_attentions=forward, backward_attentions=backward)
    here, there = _views(forward[0]), _views(backward[0])
    common = torch.zeros(len(here), len(there))
    sizes = torch.zeros(len(here), 1), torch.zeros(1, len(there))
    for one, other in zip(forward, backward, strict=True):
        found = _unit_links(one).flatten(1).float()  # (C, T' * S')
        back = _unit_links(other).mT.flatten(1).float()  # (C', T' * S')
        common += found @ back.mT  # (C, C')
        sizes[0].add_(found.sum(1, keepdim=True))
        sizes[1].add_(back.sum(1)[None])
    agreement = 2 * common / (sizes[0] + sizes[1]).clamp_min(1)  # (C, C')
    best, best_back = divmod(int(agreement.argmax()), len(there))
    return Agreement(
        here[best].settings, there[best_back].settings, float(agreement[best, best_back])
    )


class _View(NamedTuple):
    """One map of a model."""

    layer: int | None
    head: int | None
    shift: bool

    @property
    def settings(self) -> AlignmentSettings:
        """With the way of reading that is best where nothing is known."""
        return UNMEASURED.model_copy(update=self._asdict())


def _views(attention: Attention) -> list[_View]:
    """All maps of a model, in the order of `_maps`."""
    places = list(_places(*attention.layers.shape[:2]))
    return [_View(*place, shift) for shift in (False, True) for place in places]


def _places(layers: int, heads: int) -> Iterator[tuple[int | None, int | None]]:
    """The average, each layer, each head; an only layer or an only head is not named twice."""
    yield None, None
    if layers > 1:
        yield from ((layer, None) for layer in range(layers))
    if heads > 1:
        yield from ((layer, head) for layer in range(layers) for head in range(heads))


def _maps(attention: Attention) -> Tensor:
    """Every map of one sentence between words, by shares and without sinks: (C, T', S')."""
    seen, places = without_sinks(attention), list(_places(*attention.layers.shape[:2]))
    both = [pick_by_shares(by_word(seen, shift=shift), places) for shift in (False, True)]
    return torch.cat(both)  # (C, T', S')


def _unit_links(attention: Attention) -> Tensor:
    """True where a unit of the target has its best one of the source, by every map: (C, T', S')."""
    found = _best_of_rows(_maps(attention))
    axes = attention.rows, attention.columns
    rows, columns = (torch.tensor(axis.sizes, dtype=torch.long) for axis in axes)
    return found.repeat_interleave(rows, 1).repeat_interleave(columns, 2)


def _best_of_rows(maps: Tensor) -> Tensor:
    """True where a row of `maps` (C, T, S) has its best column."""
    if not maps.numel():
        return maps.bool()
    peaks, best = maps.max(-1, keepdim=True)  # (C, T, 1)
    return torch.zeros_like(maps, dtype=torch.bool).scatter(-1, best, peaks > 0)


def _matrix(links: frozenset[Link], like: Tensor) -> Tensor:
    """True at the links: (T, S), as wide as the maps `like` (C, T, S)."""
    matrix = torch.zeros(like.shape[1:], dtype=torch.bool)
    for source, target in links:
        matrix[target, source] = True
    return matrix
