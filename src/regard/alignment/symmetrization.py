"""Two alignments of the same pairs -> one: what both say, what either says, or between the two."""

from collections.abc import Callable, Iterator, Set
from typing import Literal, get_args

from regard.types import Link

Symmetrization = Literal[
    "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and"
]
SYMMETRIZATIONS: tuple[Symmetrization, ...] = get_args(Symmetrization)


def symmetrize(forward: Set[Link], backward: Set[Link], how: Symmetrization) -> frozenset[Link]:
    """The links that two directions make together, both given as (source, target).

    `forward` has a link for each target word, as IBM's models of the target given the source do,
    and `backward` one for each source word.
    """
    return _HEURISTICS[how](forward, backward)


def flip(links: Set[Link]) -> frozenset[Link]:
    """The links of the other direction: (target, source) for (source, target)."""
    return frozenset((target, source) for source, target in links)


def intersect(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """The links that both directions found."""
    return frozenset(forward & backward)


def union(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """The links that either direction found."""
    return frozenset(forward | backward)


def grow_diag(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """The intersection, grown into the union (Koehn et al. 2005).

    A link of the union joins when it touches a link that is in, straight or at a corner, and one
    of its words has no link yet.
    """
    candidates = forward | backward
    grown = set(forward & backward)
    sources, targets = {s for s, _ in grown}, {t for _, t in grown}
    changed = True
    while changed:
        changed = False
        for origin in sorted(grown):
            for neighbour in _neighbours(origin):
                unaligned = neighbour[0] not in sources or neighbour[1] not in targets
                if neighbour in candidates and neighbour not in grown and unaligned:
                    grown.add(neighbour)
                    sources.add(neighbour[0])
                    targets.add(neighbour[1])
                    changed = True
    return frozenset(grown)


def grow_diag_final(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """What grew, and then each link of either direction that has a word without one."""
    grown = set(grow_diag(forward, backward))
    for side in (forward, backward):
        _add_unaligned(grown, side, any)
    return frozenset(grown)


def grow_diag_final_and(forward: Set[Link], backward: Set[Link]) -> frozenset[Link]:
    """What grew, and then each link of either direction whose words both have none."""
    grown = set(grow_diag(forward, backward))
    for side in (forward, backward):
        _add_unaligned(grown, side, all)
    return frozenset(grown)


_HEURISTICS: dict[Symmetrization, Callable[[Set[Link], Set[Link]], frozenset[Link]]] = {
    "intersection": intersect,
    "union": union,
    "grow-diag": grow_diag,
    "grow-diag-final": grow_diag_final,
    "grow-diag-final-and": grow_diag_final_and,
}


def _add_unaligned(
    grown: set[Link], side: Set[Link], rule: Callable[[tuple[bool, bool]], bool]
) -> None:
    """Let in the links of one direction that have words without links, `enough` of the two."""
    sources, targets = {s for s, _ in grown}, {t for _, t in grown}
    for link in sorted(side):
        if rule((link[0] not in sources, link[1] not in targets)):
            grown.add(link)
            sources.add(link[0])
            targets.add(link[1])


def _neighbours(origin: Link) -> Iterator[Link]:
    """The four beside it, then the four at its corners."""
    steps = (-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)
    yield from ((origin[0] + down, origin[1] + right) for down, right in steps)
