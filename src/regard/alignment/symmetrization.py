"""Merges word alignments of two directions: intersection, union, or a heuristic in between."""

from collections.abc import Callable, Set
from typing import Literal, get_args

from regard.types import Link

Symmetrization = Literal[
    "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"
]
SYMMETRIZATIONS: tuple[Symmetrization, ...] = get_args(Symmetrization)
NEIGHBOURS = (-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)


def symmetrize(forward: Set[Link], backward: Set[Link], how: Symmetrization) -> frozenset[Link]:
    """The links of two directions as one alignment (Koehn et al. 2005), all as (source, target);
    `forward` has a link for each target word, `backward` one for each source word.
    """
    if how == "intersection":
        return frozenset(forward & backward)
    if how == "union":
        return frozenset(forward | backward)
    grown = _grow_diag(forward, backward)
    if how != "grow-diag":
        for side in (forward, backward):
            _add_unaligned(grown, side, all if how == "grow-diag-final-and" else any)
    return frozenset(grown)


def flip(links: Set[Link]) -> frozenset[Link]:
    """The links of the other direction: (target, source) for (source, target)."""
    return frozenset((target, source) for source, target in links)


def _grow_diag(forward: Set[Link], backward: Set[Link]) -> set[Link]:
    """The intersection, with neighbouring links of the union that align an unaligned word."""
    candidates, grown = forward | backward, set(forward & backward)
    sources, targets = {s for s, _ in grown}, {t for _, t in grown}
    changed = True
    while changed:
        changed = False
        for source, target in sorted(grown):
            for down, right in NEIGHBOURS:
                link = source + down, target + right
                unaligned = link[0] not in sources or link[1] not in targets
                if unaligned and link in candidates:
                    grown.add(link)
                    sources.add(link[0])
                    targets.add(link[1])
                    changed = True
    return grown


def _add_unaligned(
    grown: set[Link], side: Set[Link], rule: Callable[[tuple[bool, bool]], bool]
) -> None:
    """Add the links of one direction if `any` or `all` of their two words are unaligned."""
    sources, targets = {s for s, _ in grown}, {t for _, t in grown}
    for source, target in sorted(side):
        if rule((source not in sources, target not in targets)):
            grown.add((source, target))
            sources.add(source)
            targets.add(target)
