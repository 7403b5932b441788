"""Which sentences to search for together."""

from collections.abc import Sequence

MIN_COUNTED_LENGTH = 4
"""Tokens that a sentence counts for at the least: its hypotheses have logits, however short."""


def plan_batches(lengths: Sequence[int], budget: int, width: int = 1) -> list[list[int]]:
    """Places in `lengths` of the sentences of each batch: of like length, the longest first.

    A batch of B sentences, padded to the longest, S, and searched with `width` hypotheses each, has
    B S `width` <= `budget`, where S counts for at least `SHORTEST`; a sentence that is too long for
    that is alone in its batch. The longest come first, so that if memory does not suffice, this is
    known at once.
    """
    if budget < 1 or width < 1:
        raise ValueError(f"budget and width must be positive, got {budget=} and {width=}")
    batches: list[list[int]] = []
    free_rows = 0
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if free_rows < 1:
            free_rows = budget // (max(MIN_COUNTED_LENGTH, lengths[place]) * width)
            batches.append([])
        batches[-1].append(place)
        free_rows -= 1
    return batches
