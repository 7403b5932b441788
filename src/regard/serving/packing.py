"""Which sentences CTranslate2 searches for together."""

from collections import defaultdict
from collections.abc import Sequence
from math import ceil

from regard.decoding.batches import plan_batches

ENOUGH = 16
"""Hypotheses that a batch must hold to be as fast as any, hypothesis by hypothesis."""


def pack(lengths: Sequence[int], limits: Sequence[int], budget: int, width: int) -> list[list[int]]:
    """Places of the sentences of each batch, the longest first; most batches have one limit.

    CTranslate2 has one length limit for a batch: where it is every sentence's own, nothing need be
    searched twice or be watched. Sentences of one limit are by themselves if they are `ENOUGH`, in
    batches of like size; all others are put together by length. `budget` and `width` are as in
    `plan_batches`.
    """
    alike: dict[int, list[int]] = defaultdict(list)
    for place, limit in enumerate(limits):
        alike[limit].append(place)
    groups, others = [], []
    for places in alike.values():
        if len(places) * width >= ENOUGH:
            groups.append(places)
        else:
            others += places
    plans = [(places, _share_evenly(places, lengths, budget, width)) for places in groups]
    batches = []
    for places, room in (*plans, (others, budget)):
        plan = plan_batches([lengths[place] for place in places], room, width)
        batches += [[places[number] for number in batch] for batch in plan]
    return sorted(batches, key=lambda batch: -lengths[batch[0]])


def _share_evenly(places: Sequence[int], lengths: Sequence[int], budget: int, width: int) -> int:
    """The budget with which the sentences at `places` fill their batches alike."""
    cost = max(lengths[place] for place in places) * width
    batches = ceil(len(places) / max(1, budget // cost))
    return min(budget, ceil(len(places) / batches) * cost)
