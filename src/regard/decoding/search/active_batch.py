"""Who of a batch is still being searched for."""

from collections import defaultdict, deque
from collections.abc import Collection, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, device

from regard.decoding.gpu.async_copy import LaggedReader, async_to_device


class Compaction(NamedTuple):
    """Who leaves a batch, and who stays."""

    rows: list[int]
    """Numbers of the sentences that leave."""
    removed: Tensor  # (B',) their places in the batch
    kept: Tensor  # (B'',) those of all others


class ActiveBatch:
    """Which sentences of a batch are done, as the host knows it: `late` by some steps.

    One that is done may stay for a while, but what it says counts no more. So it makes no
    difference to any answer how late the host is. Of limits it knows beforehand, and is on time.
    """

    def __init__(self, limits: Sequence[int], where: device, lag: int) -> None:
        self.rows = list(range(len(limits)))
        """Numbers of the sentences in the batch, which the device has as `Grid.rows`."""
        self._unfinished = set(self.rows)  # those that the host believes not to be done
        self._limits: dict[int, list[int]] = defaultdict(list)
        for row, limit in enumerate(limits):
            self._limits[limit].append(row)
        self._where, self._lag = where, lag
        self._reports, self._reported = LaggedReader(lag), deque[list[int]]()

    def truncated(self, length: int, abandoned: Collection[int]) -> Tensor | None:
        """Sentences (B,) that end here, whatever they have found: at their limit, or `unwanted`.

        None: no sentence does.
        """
        ended_now = self._unfinished.intersection([*self._limits.get(length, ()), *abandoned])
        if not ended_now:
            return None
        self._unfinished -= ended_now
        return async_to_device([row in ended_now for row in self.rows], self._where, torch.bool)

    def poll(self, is_done: Tensor | None) -> Tensor | None:
        """Note that sentences (B,) are `over`; hear, once it is time, who was some steps ago.

        What comes back is what the next step has to know of it; None: that nobody here is.
        """
        assert is_done is not None  # as a step leaves it
        self._reported.append(self.rows)
        reported_mask = self._reports.poll(is_done)
        if reported_mask is not None:
            rows = self._reported.popleft()
            self._unfinished.difference_update(
                rows[place] for place in reported_mask.nonzero()[:, 0].tolist()
            )
        return is_done if self._lag or len(self._unfinished) < len(self.rows) else None

    def compact(self, threshold: float) -> Compaction | None:
        """Who leaves now: all who are done, as soon as only `crowded` of those here go on."""
        if len(self._unfinished) == len(self.rows) or len(self._unfinished) > threshold * len(
            self.rows
        ):
            return None
        removed = [place for place, row in enumerate(self.rows) if row not in self._unfinished]
        kept = [place for place, row in enumerate(self.rows) if row in self._unfinished]
        compaction = Compaction(
            [self.rows[place] for place in removed],
            async_to_device(removed, self._where),
            async_to_device(kept, self._where),
        )
        self.rows = [self.rows[place] for place in kept]
        return compaction
