"""Selects the layer, head and method that align best: by gold links, or by agreement of models.

Shapes: T, S are target and source words; T', S' the units of text that links count (`Axis.sizes`).
"""

from collections import defaultdict
from collections.abc import Sequence
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
    select_normalized,
)
from regard.alignment.symmetrization import SYMMETRIZATIONS, flip, symmetrize
from regard.evaluation.alignment_error import error_rate, score_alignments
from regard.evaluation.metrics import check_lines
from regard.inspection.attention_sinks import without_sinks
from regard.inspection.recording.attention_map import AttentionMaps
from regard.types import GoldAlignment, Link

FINALISTS = 4  # maps whose links are extracted with every method; the others by the argmax only


class SelectedAlignment(NamedTuple):
    """The best settings, and their alignment error rate."""

    settings: AlignmentSettings
    error: float


class Agreement(NamedTuple):
    """The settings of two models, source to target and back, whose links agree most."""

    forward: AlignmentSettings
    backward: AlignmentSettings
    value: float  # Dice: 2 |A ∩ B| / (|A| + |B|) for their links A and B, over all sentences


def select_by_gold(
    attentions: Sequence[AttentionMaps], gold: Sequence[GoldAlignment]
) -> SelectedAlignment:
    """The settings with the lowest alignment error rate; the first of equal ones.

    Links are extracted from every map by the argmax over source words for each target word; then
    from the best few maps and the baseline by every extraction method.
    """
    check_lines(attentions=attentions, gold_alignments=gold)
    candidates = _list_maps(attentions[0])
    counts = torch.zeros(3, len(candidates))  # links, sure ones hit, possible ones hit
    for attention, reference in zip(attentions, gold, strict=True):
        links = _unit_links(attention)  # (C, T', S')
        sure, possible = (_link_mask(side, links) for side in reference)  # (T', S')
        counts += torch.stack([(links & mask).sum((-1, -2)) for mask in (links, sure, possible)])
    num_sure = sum(len(reference.sure) for reference in gold)
    errors = [
        error_rate(num_links=links, num_sure=num_sure, hit_sure=sure, hit_possible=possible)
        for links, sure, possible in counts.mT.tolist()
    ]
    best = sorted(range(len(candidates)), key=errors.__getitem__)[:FINALISTS]
    methods = {
        BASELINE_ALIGNMENT: [align_text(attention, BASELINE_ALIGNMENT) for attention in attentions],
        **_extract_all_methods(attentions, [candidates[number] for number in best]),
    }
    scored = [
        SelectedAlignment(settings, score_alignments(links, gold).error_rate)
        for settings, links in methods.items()
    ]
    return min(scored, key=lambda choice: choice.error)


def _extract_all_methods(
    attentions: Sequence[AttentionMaps], candidates: Sequence["_MapIndex"]
) -> dict[AlignmentSettings, list[frozenset[Link]]]:
    """The links of all sentences by every method; each map is computed once."""
    methods: dict[AlignmentSettings, list[frozenset[Link]]] = defaultdict(list)
    for attention in attentions:
        cleaned = without_sinks(attention)
        sizes = attention.columns.sizes, attention.rows.sizes
        for layer, head, shift in candidates:
            words = cleaned.merge_pieces(shift=shift)
            plain = words.select(layer, head)  # (T, S)
            normalized = select_normalized(words, [(layer, head)])[0]  # (T, S)
            for shares, weights in ((False, plain), (True, normalized)):
                rows = expand_links(argmax_links(weights), *sizes)
                columns = expand_links(flip(argmax_links(weights.mT)), *sizes)
                settings = AlignmentSettings(layer=layer, head=head, shift=shift, shares=shares)
                methods[settings].append(rows)
                for how in SYMMETRIZATIONS:
                    symmetrized = symmetrize(rows, columns, how)
                    methods[settings.model_copy(update={"links": how})].append(symmetrized)
    return methods


def select_by_agreement(
    forward: Sequence[AttentionMaps], backward: Sequence[AttentionMaps]
) -> Agreement:
    """The settings of two models whose links agree most. No gold is needed: the other model does
    not confirm the sinks and positional biases of one. `backward` has the same sentences, target to
    source.
    """
    check_lines(forward_attentions=forward, backward_attentions=backward)
    forward_maps, backward_maps = _list_maps(forward[0]), _list_maps(backward[0])
    common = torch.zeros(len(forward_maps), len(backward_maps))
    sizes = torch.zeros_like(common)
    for maps, reverse_maps in zip(forward, backward, strict=True):
        links = _unit_links(maps).flatten(1).float()  # (C, T' * S')
        reverse_links = _unit_links(reverse_maps).mT.flatten(1).float()  # (C', T' * S')
        common += links @ reverse_links.mT  # (C, C')
        sizes += links.sum(1, keepdim=True) + reverse_links.sum(1)  # (C, C')
    agreement = 2 * common / sizes.clamp_min(1)  # (C, C')
    best, best_reverse = divmod(int(agreement.argmax()), len(backward_maps))
    return Agreement(
        DEFAULT_ALIGNMENT.model_copy(update=forward_maps[best]._asdict()),
        DEFAULT_ALIGNMENT.model_copy(update=backward_maps[best_reverse]._asdict()),
        float(agreement[best, best_reverse]),
    )


class _MapIndex(NamedTuple):
    """One map of a model: a layer and head, or the average over all."""

    layer: int | None
    head: int | None
    shift: bool


def _list_maps(attention: AttentionMaps) -> list[_MapIndex]:
    """All maps of a model: averages and layers before heads, a single layer or head once."""
    layers, heads = attention.weights.shape[:2]
    places: list[tuple[int | None, int | None]] = [(None, None)]
    places += [(layer, None) for layer in range(layers) if layers > 1]
    places += [(layer, head) for layer in range(layers) for head in range(heads) if heads > 1]
    return [_MapIndex(*place, shift) for shift in (False, True) for place in places]


def _unit_links(attention: AttentionMaps) -> Tensor:
    """True at each target unit's best source unit, by each of `_list_maps`: (C, T', S')."""
    cleaned = without_sinks(attention)
    places = [(one.layer, one.head) for one in _list_maps(attention) if not one.shift]
    maps = torch.cat(
        [select_normalized(cleaned.merge_pieces(shift=shift), places) for shift in (False, True)]
    )  # (C, T, S)
    links = maps.bool()
    if maps.numel():
        peaks, best = maps.max(-1, keepdim=True)  # (C, T, 1)
        links = torch.zeros_like(links).scatter(-1, best, peaks > 0)
    rows, columns = (torch.tensor(axis.sizes) for axis in (attention.rows, attention.columns))
    return links.repeat_interleave(rows.long(), 1).repeat_interleave(columns.long(), 2)


def _link_mask(links: frozenset[Link], like: Tensor) -> Tensor:
    """True at the links: (T', S'), the size of the maps `like` (C, T', S')."""
    mask = torch.zeros(like.shape[1:], dtype=torch.bool)
    for source, target in links:
        mask[target, source] = True
    return mask
