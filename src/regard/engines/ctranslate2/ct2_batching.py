"""Which sentences CTranslate2 searches for together."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import chain, pairwise

from regard.decoding.length_batches import plan_batches

MIN_HYPOTHESES = 32
"""Hypotheses that a batch must hold to be as fast as any, hypothesis by hypothesis; half of them
are, at first, but some end early."""


def batch_by_limit(
    lengths: Sequence[int], limits: Sequence[int], budget: int, width: int
) -> list[list[int]]:
    """Places of the sentences of each batch, the longest first; most batches have one limit.

    CTranslate2 has one length limit for a batch: where it is every sentence's own, little need be
    searched twice. Sentences of one limit are by themselves if they are `ENOUGH`, in batches of
    like size; all others are put together by length. `budget` and `width` are as in
    `plan_batches`.
    """
    by_limit: dict[int, list[int]] = defaultdict(list)
    for place, limit in enumerate(limits):
        by_limit[limit].append(place)
    groups, others = [], []
    for places in by_limit.values():
        if len(places) * width >= MIN_HYPOTHESES:
            groups.append(places)
        else:
            others += places
    batches = []
    for places in (*groups, others):
        own = [lengths[place] for place in places]
        plan = plan_batches(own, budget, width)
        if len(set(own)) == 1:
            plan = _even_batches(plan)
        batches += [[places[number] for number in batch] for batch in plan]
    return sorted(batches, key=lambda batch: -lengths[batch[0]])


def _even_batches(batches: Sequence[Sequence[int]]) -> list[list[int]]:
    """As many batches, of like size."""
    every, count = list(chain(*batches)), len(batches)
    bounds = [number * len(every) // count for number in range(count + 1)]
    return [every[first:last] for first, last in pairwise(bounds)]
