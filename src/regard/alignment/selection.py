"""Which layer, head and reading align best, measured: by gold links, or by how two models agree."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from regard.alignment.extraction import (
    BASELINE_ALIGNMENT,
    DEFAULT_ALIGNMENT,
    AlignmentSettings,
    align_text,
    argmax_links,
    expand_links,
    merge_pieces,
    select_normalized,
)
from regard.alignment.symmetrization import SYMMETRIZATIONS, flip, symmetrize
from regard.evaluation.alignment_error import error_rate, score_alignments
from regard.evaluation.metrics import check_lines
from regard.inspection.attention_sinks import without_sinks
from regard.inspection.recording.attention_map import AttentionMaps
from regard.types import GoldAlignment, Link

FINALISTS = 4
"""Maps whose links are read off in every way; all others are only read by rows."""


class SelectedAlignment(NamedTuple):
    """The settings that fit best, and how far off they still are."""

    settings: AlignmentSettings
    error: float


class Agreement(NamedTuple):
    """The settings of two models, source to target and back, whose links agree most."""

    forward: AlignmentSettings
    backward: AlignmentSettings
    value: float
    """2 |A ∩ B| / (|A| + |B|) for the links A and B of the two, over all sentences (Dice)."""


def select_by_gold(
    attentions: Sequence[AttentionMaps], gold: Sequence[GoldAlignment]
) -> SelectedAlignment:
    """The settings whose links have the lowest alignment error rate over some sentences.

    Every layer, head and average, shifted or not, is read by rows; the links of the best few and of
    the plain average are then read off in every way. Of equals the first wins: averages before
    single heads, and each unshifted before shifted.
    """
    check_lines(attentions=attentions, gold_alignments=gold)
    map_indices = _list_maps(attentions[0])
    counts = torch.zeros(3, len(map_indices))  # links, sure ones hit, possible ones hit
    for attention, reference in zip(attentions, gold, strict=True):
        found = _unit_links(attention)  # (C, T', S')
        sure, possible = (_link_mask(links, found) for links in reference)  # (T', S')
        counts += torch.stack([(found & which).sum((-1, -2)) for which in (found, sure, possible)])
    num_sure = sum(len(reference.sure) for reference in gold)
    errors = [
        error_rate(num_links=links, num_sure=num_sure, hit_sure=sure, hit_possible=possible)
        for links, sure, possible in counts.mT.tolist()
    ]
    best = sorted(range(len(map_indices)), key=errors.__getitem__)[:FINALISTS]
    links = _extract_all_methods(attentions, [map_indices[number] for number in best])
    links = {
        BASELINE_ALIGNMENT: [align_text(each, BASELINE_ALIGNMENT) for each in attentions],
        **links,
    }
    scored = [
        SelectedAlignment(method_settings, score_alignments(each, gold).error_rate)
        for method_settings, each in links.items()
    ]
    return min(scored, key=lambda choice: choice.error)


def _extract_all_methods(
    attentions: Sequence[AttentionMaps], map_indices: Sequence["_MapIndex"]
) -> dict[AlignmentSettings, list[frozenset[Link]]]:
    """The links of all sentences in every reading of some maps; each map is made but once."""
    found: dict[AlignmentSettings, list[frozenset[Link]]] = defaultdict(list)
    for attention in attentions:
        cleaned = without_sinks(attention)
        for map_index in map_indices:
            words, place = (
                merge_pieces(cleaned, shift=map_index.shift),
                (map_index.layer, map_index.head),
            )
            for shares in (False, True):
                weights = select_normalized(words, [place])[0] if shares else words.pick(*place)
                links = argmax_links(weights), flip(argmax_links(weights.mT))  # of (T', S')
                sizes = attention.columns.sizes, attention.rows.sizes
                rows, columns = (expand_links(each, *sizes) for each in links)
                method_settings = map_index.settings.model_copy(
                    update={"shares": shares, "links": "rows"}
                )
                found[method_settings].append(rows)
                for how in SYMMETRIZATIONS:
                    joined = symmetrize(rows, columns, how)
                    found[method_settings.model_copy(update={"links": how})].append(joined)
    return found


def select_by_agreement(
    forward: Sequence[AttentionMaps], backward: Sequence[AttentionMaps]
) -> Agreement:
    """The settings of two models whose links agree most; no gold is needed.

    `backward` are the same sentences the other way round. One model gives each target word its best
    source word, the other each source word its best target word: whatever either does out of habit,
    such as parking its attention or looking where a word stands, the other does not confirm.
    """
    check_lines(forward_attentions=forward, backward_attentions=backward)
    forward_maps, backward_maps = _list_maps(forward[0]), _list_maps(backward[0])
    common = torch.zeros(len(forward_maps), len(backward_maps))
    sizes = torch.zeros(len(forward_maps), 1), torch.zeros(1, len(backward_maps))
    for one, other in zip(forward, backward, strict=True):
        found = _unit_links(one).flatten(1).float()  # (C, T' * S')
        back = _unit_links(other).mT.flatten(1).float()  # (C', T' * S')
        common += found @ back.mT  # (C, C')
        sizes[0].add_(found.sum(1, keepdim=True))
        sizes[1].add_(back.sum(1)[None])
    agreement = 2 * common / (sizes[0] + sizes[1]).clamp_min(1)  # (C, C')
    best, best_back = divmod(int(agreement.argmax()), len(backward_maps))
    return Agreement(
        forward_maps[best].settings,
        backward_maps[best_back].settings,
        float(agreement[best, best_back]),
    )


class _MapIndex(NamedTuple):
    """One map of a model."""

    layer: int | None
    head: int | None
    shift: bool

    @property
    def settings(self) -> AlignmentSettings:
        """With the way of reading that is best where nothing is known."""
        return DEFAULT_ALIGNMENT.model_copy(update=self._asdict())


def _list_maps(attention: AttentionMaps) -> list[_MapIndex]:
    """All maps of a model, in the order of `_maps`."""
    places = list(_layer_head_pairs(*attention.layers.shape[:2]))
    return [_MapIndex(*place, shift) for shift in (False, True) for place in places]


def _layer_head_pairs(layers: int, heads: int) -> Iterator[tuple[int | None, int | None]]:
    """The average, each layer, each head; an only layer or an only head is not named twice."""
    yield None, None
    if layers > 1:
        yield from ((layer, None) for layer in range(layers))
    if heads > 1:
        yield from ((layer, head) for layer in range(layers) for head in range(heads))


def _normalized_maps(attention: AttentionMaps) -> Tensor:
    """Every map of one sentence between words, by shares and without sinks: (C, T', S')."""
    cleaned, places = without_sinks(attention), list(_layer_head_pairs(*attention.layers.shape[:2]))
    both = [
        select_normalized(merge_pieces(cleaned, shift=shift), places) for shift in (False, True)
    ]
    return torch.cat(both)  # (C, T', S')


def _unit_links(attention: AttentionMaps) -> Tensor:
    """True where a unit of the target has its best one of the source, by every map: (C, T', S')."""
    found = _row_argmax_mask(_normalized_maps(attention))
    axes = attention.rows, attention.columns
    rows, columns = (torch.tensor(axis.sizes, dtype=torch.long) for axis in axes)
    return found.repeat_interleave(rows, 1).repeat_interleave(columns, 2)


def _row_argmax_mask(maps: Tensor) -> Tensor:
    """True where a row of `maps` (C, T, S) has its best column."""
    if not maps.numel():
        return maps.bool()
    peaks, best = maps.max(-1, keepdim=True)  # (C, T, 1)
    return torch.zeros_like(maps, dtype=torch.bool).scatter(-1, best, peaks > 0)


def _link_mask(links: frozenset[Link], like: Tensor) -> Tensor:
    """True at the links: (T, S), as wide as the maps `like` (C, T, S)."""
    matrix = torch.zeros(like.shape[1:], dtype=torch.bool)
    for source, target in links:
        matrix[target, source] = True
    return matrix
