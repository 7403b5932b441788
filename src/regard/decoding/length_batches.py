"""Batches of sentences of similar length."""

from collections.abc import Sequence

MIN_COUNTED_LENGTH = 4
"""The least length that a sentence counts for: its hypotheses have logits, however short it is."""


def plan_batches(lengths: Sequence[int], budget: int, width: int = 1) -> list[list[int]]:
    """Indices of the sentences of each batch, sorted by length, the longest first.

    A batch of B sentences, padded to the longest, S, and searched with `width` hypotheses each, has
    B S `width` <= `budget`, where S is at least `MIN_COUNTED_LENGTH`; a sentence that is too long
    for that has its own batch. The longest come first, so that running out of memory shows at once.
    """
    if budget < 1 or width < 1:
        raise ValueError(f"budget and width must be positive, got {budget=} and {width=}")
    batches: list[list[int]] = []
    free_rows = 0
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if free_rows < 1:
            free_rows = budget // (max(MIN_COUNTED_LENGTH, lengths[i]) * width)
            batches.append([])
        batches[-1].append(i)
        free_rows -= 1
    return batches
