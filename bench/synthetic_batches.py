"""Batches of random tokens whose sentence lengths are distributed as WMT's."""

from collections.abc import Sequence

import numpy as np

from regard.batching.collate import collate
from regard.batching.sampler import epoch_batches
from regard.types import AnyBatch

LONGEST = 256
"""Pairs with a side of more tokens are left out, as `training.max_tokens` has it by default."""
MEAN, SPREAD = 29.0, 0.55
"""Of the lengths in tokens of WMT's sentences, which are nearly log-normal: the mean, and the
standard deviation of the logarithm."""


def synthetic_batches(
    count: int, tokens: int, vocabulary: int, *, mean: float = MEAN
) -> list[AnyBatch]:
    """Batches of random ids, of `tokens` positions a side, in sentences of `mean` tokens."""
    rng = np.random.default_rng(1)
    pairs = 2 * count * tokens // int(mean)
    middle = np.log(mean) - SPREAD**2 / 2
    source = np.exp(rng.normal(middle, SPREAD, pairs))
    target = source * np.exp(rng.normal(0, 0.15, pairs))
    lengths = [np.clip(side.round(), 2, LONGEST).astype(np.int32) for side in (source, target)]
    plan = epoch_batches(*lengths, budget=tokens, seed=1, epoch=0)[:count]

    def draw(side: int, rows: Sequence[int]) -> list[list[int]]:
        return [rng.integers(4, vocabulary, lengths[side][row] - 1).tolist() for row in rows]

    return [collate(draw(0, rows.tolist()), draw(1, rows.tolist())) for rows in plan]
